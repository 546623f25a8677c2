"""Norm, clipping, scaling and zeroing of the gradient vector."""

import numpy as np
import pytest
from cases import normal
from judges import KERNEL_LIMIT, SEEDS, assert_close, launch, poison

from kernels import adamw, clip, reference, target
from kernels.registry import PROOF_BLOCKS
from kernels.target import KernelError

# one, odd, a part of a chunk, exactly two, more than the final kernel has lanes (a second value for each)
SIZES = {"one": 1, "odd": 77, "part": 5000, "exact": 2 * clip.CHUNK, "many": 300 * clip.CHUNK + 13}


def hyper(max_norm=1.0, inv_count=0.125):
    hp = np.full(adamw.SLOTS, np.nan, np.float32)
    hp[[adamw.MAX_NORM, adamw.INV_COUNT]] = max_norm, inv_count
    return hp


def norm_of(g, hp):
    x = {"g": g, "partial": poison((clip.partials(g.size),)), "hp": hp}
    got = launch(clip.norm, ("g", "partial", "hp"), x)
    assert got["g"].tobytes() == g.tobytes()
    return got["hp"]


@pytest.mark.parametrize("size", SIZES)
def test_norm_and_factor(size):
    for seed in SEEDS:
        g = normal(np.random.default_rng(seed), SIZES[size], scale=0.01 if seed % 2 else 30.0)
        for max_norm in (1.0, 0.0, -1.0, 1e9):
            hp = norm_of(g, hyper(max_norm))
            norm = reference.global_norm({"g": g.astype(np.float64)}) * 0.125
            assert_close("norm", hp[adamw.NORM], norm, KERNEL_LIMIT)
            assert_close("factor", hp[adamw.FACTOR], 0.125 * reference.clip_factor(norm, max_norm), KERNEL_LIMIT)


def test_the_norm_of_nothing_is_zero():
    hp = norm_of(np.zeros(500, np.float32), hyper())
    assert hp[adamw.NORM] == 0.0 and hp[adamw.FACTOR] == np.float32(0.125)


@pytest.mark.parametrize("max_norm", [1.0, 0.0])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_a_norm_that_is_not_finite_stays_visible(bad, max_norm):
    g = np.ones(clip.CHUNK + 5, np.float32)
    g[-2] = bad
    hp = norm_of(g, hyper(max_norm))
    assert not np.isfinite(hp[adamw.NORM])
    assert np.isnan(hp[adamw.FACTOR]), "a step taken all the same must not look like a step"
    after = launch(clip.scale_to_norm, ("g", "hp"), {"g": g, "hp": hp})["g"]
    assert np.isnan(after).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_two_separate_steps_do_what_the_factor_does(seed):
    g = normal(np.random.default_rng(seed), 5001, scale=(30.0, 1e-3)[seed % 2])
    hp = norm_of(g, hyper())
    mean = launch(clip.scale_by_count, ("g", "hp"), {"g": g, "hp": hp})["g"]
    clipped = launch(clip.scale_to_norm, ("g", "hp"), {"g": mean, "hp": hp})["g"]
    assert_close("factor", clipped, g.astype(np.float64) * hp[adamw.FACTOR], KERNEL_LIMIT)
    limit = min(1.0, reference.global_norm({"g": mean.astype(np.float64)}))
    assert reference.global_norm({"g": clipped.astype(np.float64)}) == pytest.approx(limit, rel=1e-5)


def test_scale_to_norm_leaves_a_gradient_inside_the_norm_and_one_without_a_limit():
    g = normal(np.random.default_rng(0), 1000)
    for max_norm, norm in ((1e6, 4.0), (0.0, 4.0), (4.0, 4.0)):
        hp = hyper(max_norm)
        hp[adamw.NORM] = norm
        assert launch(clip.scale_to_norm, ("g", "hp"), {"g": g, "hp": hp})["g"].tobytes() == g.tobytes()


def test_zero_takes_arrays_of_any_shape():
    x = {"a": poison((3, 5, 7)), "b": poison((1,)), "c": poison((4000,))}
    got = launch(clip.zero, ("a", "b", "c"), x)
    assert all(a.tobytes() == np.zeros_like(a).tobytes() for a in got.values())


def test_bits_depend_neither_on_workers_nor_on_the_block():
    g = normal(np.random.default_rng(0), SIZES["many"])
    before, seen = target.threads(), set()
    try:
        for workers in (1, 1, 2, 3):
            target.set_threads(workers)
            seen.add(norm_of(g, hyper()).tobytes())
        for block in PROOF_BLOCKS:
            n, partial, hp = g.size, poison((clip.partials(g.size),)), hyper()
            target.run([clip.k_grad_norm_partial[partial.size, block].bind(g, partial, n)])
            target.run([clip.k_grad_norm_final[1, block].bind(partial, hp, partial.size)])
            seen.add(hp.tobytes())
    finally:
        target.set_threads(before)
    assert len(seen) == 1


def test_a_scratch_of_another_size_is_refused():
    with pytest.raises(KernelError, match=r"clip.norm: partial has shape \(7,\), expected \(1,\)"):
        clip.norm(np.zeros(10, np.float32), np.zeros(7, np.float32), hyper())

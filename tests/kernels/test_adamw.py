"""AdamW against the reference over twelve steps, against PyTorch's stored steps, and region by region."""

import numpy as np
import pytest
from cases import normal
from judges import FIXTURES, KERNEL_LIMIT, SEEDS, assert_close, launch, poison

from kernels import adamw, reference, target
from kernels.target import KernelError

STEPS = 12
SIZES = {"one": 1, "odd": 7, "blocks": 1000, "large": 300, "zero": 64}
BETA1, BETA2 = (float(np.float32(b)) for b in (0.9, 0.999))


def hyper(t, lr=0.01, decay=0.1, factor=0.5, eps=1e-8):
    hp = np.full(adamw.SLOTS, np.nan, np.float32)
    hp[[adamw.LR, adamw.BETA1, adamw.BETA2, adamw.EPS, adamw.DECAY]] = lr, BETA1, BETA2, eps, decay
    hp[[adamw.CORR1, adamw.CORR2, adamw.FACTOR]] = adamw.correction(0.9, t), adamw.correction(0.999, t), factor
    return hp


def start(rng, n, scale):
    return {"w": normal(rng, n), "g": normal(rng, n, scale=scale)} | {k: np.zeros(n, np.float32) for k in "mv"}


def step(x, hp, regions):
    build = lambda w, g, m, v, hp: adamw.update(w, g, m, v, hp, regions)  # noqa: E731
    return launch(build, ("w", "g", "m", "v", "hp"), x | {"hp": hp})


def regions_of(n):
    """Three regions, the middle one without decay."""
    cuts = sorted({0, n // 3, n // 2, n})
    return [(a, b, i != 1) for i, (a, b) in enumerate(zip(cuts, cuts[1:], strict=False))]


@pytest.mark.parametrize("size", SIZES)
def test_twelve_steps_follow_the_reference(size):
    n, scale = SIZES[size], {"large": 1e12, "zero": 0.0}.get(size, 1.0)
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        x = start(rng, n, scale)
        w, m, v = (x[k].astype(np.float64) for k in "wmv")
        for t in range(1, STEPS + 1):
            # A mean of 2, or m of a single element could cross zero.
            x["g"] = normal(rng, n, scale=scale) + np.float32(2.0 * scale)
            hp = hyper(t)
            got = step(x, hp, regions_of(n))
            assert got["g"].tobytes() == x["g"].tobytes() and got["hp"].tobytes() == hp.tobytes()
            x = {k: got[k] for k in "wgmv"}
            for a, b, decays in regions_of(n):
                s = slice(a, b)
                decay = float(hp[adamw.DECAY]) if decays else 0.0
                rates = float(hp[adamw.LR]), BETA1, BETA2, float(hp[adamw.EPS]), decay
                w[s], m[s], v[s] = reference.adamw(w[s], x["g"][s] * 0.5, m[s], v[s], t, *rates)
            for name, want in (("w", w), ("m", m), ("v", v)):
                assert_close(f"{size}, step {t}: {name}", x[name], want, KERNEL_LIMIT)


def test_the_first_step_moves_every_weight_by_the_rate():
    """m = (1 - beta1) g and v = (1 - beta2) g^2, so the corrected step is g / |g|, whatever the size of g."""
    x = start(np.random.default_rng(0), 500, 1.0)
    x["g"] *= np.float32(10.0) ** np.arange(500, dtype=np.float32).clip(0, 10)
    got = step(x, hyper(1, decay=0.0, factor=1.0, eps=0.0), [(0, 500, True)])
    assert_close("m", got["m"], 0.1 * x["g"].astype(np.float64), KERNEL_LIMIT)
    assert np.allclose(x["w"] - got["w"], 0.01 * np.sign(x["g"]), rtol=1e-4, atol=1e-6)


def test_decay_acts_on_the_weight_alone():
    x = start(np.random.default_rng(0), 100, 0.0)
    got = step(x, hyper(1), [(0, 60, True), (60, 100, False)])
    assert_close("decayed", got["w"][:60], x["w"][:60] * (1.0 - 0.01 * 0.1), 1e-6)
    assert got["w"][60:].tobytes() == x["w"][60:].tobytes()
    assert not got["m"].any() and not got["v"].any()


def test_elements_outside_of_the_regions_stay():
    x = start(np.random.default_rng(0), 700, 1.0)
    got = step(x, hyper(1), [(100, 357, True)])
    for name in "wmv":
        assert got[name][:100].tobytes() == x[name][:100].tobytes()
        assert got[name][357:].tobytes() == x[name][357:].tobytes()
        assert (got[name][100:357] != x[name][100:357]).all()


def test_a_factor_that_is_not_a_number_shows_in_every_weight():
    x = start(np.random.default_rng(0), 300, 1.0)
    got = step(x, hyper(1, factor=np.nan), [(0, 300, True)])
    assert np.isnan(got["w"]).all() and np.isnan(got["m"]).all()


def test_bits_do_not_depend_on_workers():
    x, before, seen = start(np.random.default_rng(0), 5000, 1.0), target.threads(), set()
    try:
        for workers in (1, 1, 2, 3):
            target.set_threads(workers)
            got = step(x, hyper(3), regions_of(5000))
            seen.add(b"".join(got[k].tobytes() for k in "wmv"))
    finally:
        target.set_threads(before)
    assert len(seen) == 1


def test_stored_steps_of_pytorch():
    """In float32 against float64, so to the limit of a kernel."""
    with np.load(FIXTURES / "adamw.npz", allow_pickle=False) as stored:
        s = {k: stored[k] for k in stored.files}
    n = s["w.0"].size
    x = {"w": s["w.0"].astype(np.float32), "m": np.zeros(n, np.float32), "v": np.zeros(n, np.float32)}
    for t in (1, 2, 3):
        x["g"] = s[f"g.{t}"].astype(np.float32)
        hp = hyper(t, lr=float(s["lr"]), decay=float(s["decay"]), factor=1.0)
        x = step(x, hp, [(0, n, True)])
        assert_close(f"w after step {t}", x["w"], s[f"w.{t}"], KERNEL_LIMIT)
        assert_close(f"m after step {t}", x["m"], s[f"m.{t}"], KERNEL_LIMIT)
        assert_close(f"v after step {t}", x["v"], s[f"v.{t}"], 2e-5)  # 1 - beta2 in float32 is 1.3e-5 off 0.001


@pytest.mark.parametrize("region", [(0, 11), (5, 5), (-1, 3), (8, 4)])
def test_regions_that_do_not_fit_are_refused(region):
    w = poison((10,))
    with pytest.raises(KernelError, match=f"adamw: region {region[0]} to {region[1]} is empty or outside"):
        adamw.update(w, w, w, w, hyper(1), [(*region, True)])


@pytest.mark.parametrize("beta", [0.9, 0.999])
def test_the_correction_undoes_what_the_kernel_did(beta):
    """A constant gradient of 1: m and v after t steps, corrected, are 1; the float32 beta is what the kernel used."""
    b, moment = np.float32(beta), 0.0
    for t in range(1, 2001):
        moment = float(b) * moment + (1.0 - float(b))
        assert moment * adamw.correction(beta, t) == pytest.approx(1.0, rel=1e-12)
    assert adamw.correction(0.9, 10_000) == 1.0

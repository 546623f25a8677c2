"""Attention: the generic judges over all three paths, and what only attention can get wrong."""

import numpy as np
import pytest
from attention_cases import ATTN, OUT, Q_PROJ, QKV, SCORES, SOFTMAX, SPLIT, WEIGHTED_SUM
from cases import normal
from judges import SEEDS, assert_close, launch, poison
from offline import CAPABILITIES, assemble, compile_ptx
from suite import pair_tests

from kernels import attention, attention_flash, attention_steps, heads, reference
from kernels.target import KernelError

globals().update(pair_tests(QKV, OUT, Q_PROJ, ATTN, SCORES, SOFTMAX, WEIGHTED_SUM, SPLIT))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 3, 7), (1, 2, 70), (3, 1, 33), (3, 2, 1)])
def test_mask_is_exact(sizes, seed):
    B, NH, T = sizes
    rng = np.random.default_rng(seed)
    x = {"s": normal(rng, B, NH, T, T, scale=100.0), "out": poison((B, NH, T, T))}
    got = launch(attention_steps.mask_forward, ("s", "out"), x)
    assert got["out"].tobytes() == reference.mask_forward(x["s"]).astype(np.float32).tobytes()
    y = {"dout": normal(rng, B, NH, T, T), "dinp": normal(rng, B, NH, T, T)}
    once = launch(attention_steps.mask_backward, ("dout", "dinp"), y)["dinp"]
    want = y["dinp"] + reference.mask_backward(y["dout"]).astype(np.float32)
    assert once.tobytes() == want.tobytes()


def test_a_row_that_sees_nothing_has_no_probabilities_and_no_gradient():
    s = np.full((1, 1, 3, 3), -np.inf, np.float32)
    s[0, 0, 1, 0] = 5.0
    got = launch(attention_steps.softmax_forward, ("s", "p"), {"s": s, "p": poison(s.shape)})["p"][0, 0]
    assert (got[[0, 2]] == 0.0).all() and got[1].tolist() == [1.0, 0.0, 0.0]
    x = {"p": got[None, None], "dp": np.ones_like(s), "ds": np.zeros_like(s)}
    assert (launch(attention_steps.softmax_backward, ("p", "dp", "ds"), x)["ds"] == 0.0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_merging_heads_undoes_splitting(seed):
    rng = np.random.default_rng(seed)
    rows, cut = normal(rng, 14, 15), normal(rng, 2, 3, 7, 5)
    split = launch(heads.forward, ("a", "b"), {"a": rows, "b": poison(cut.shape)})["b"]
    assert launch(heads.forward, ("a", "b"), {"a": split, "b": poison(rows.shape)})["b"].tobytes() == rows.tobytes()
    merged = launch(heads.backward, ("a", "b"), {"a": rows, "b": cut})["b"]
    assert merged.tobytes() == (cut + split).tobytes()


@pytest.mark.parametrize("path", ["production", "named"])
def test_the_first_query_sees_only_itself_and_the_future_changes_nothing(path):
    rng = np.random.default_rng(0)
    B, T, NH, C = 2, 40, 2, 16
    x = {n: normal(rng, B * T, C) for n in "qkv"} | {"out": poison((B * T, C)), "lse": poison((B, NH, T))}
    build, names = ATTN.paths[path][0], ("q", "k", "v", "out", "lse")
    first = launch(build, names, x)["out"].reshape(B, T, C)
    assert_close("row 0", first[:, 0], x["v"].reshape(B, T, C)[:, 0], 1e-6)
    changed = {n: a.copy() for n, a in x.items()}
    for n in "kv":
        changed[n].reshape(B, T, C)[:, 21:] += 3.0
    again = launch(build, names, changed)["out"].reshape(B, T, C)
    assert again[:, :21].tobytes() == first[:, :21].tobytes()
    assert (again[:, 21:] != first[:, 21:]).any(axis=2).all()


def test_the_five_steps_together_are_attention():
    rng = np.random.default_rng(0)
    B, T, NH, HS = 2, 9, 3, 4
    q, k, v = (normal(rng, B * T, NH * HS) for _ in range(3))
    step = lambda build, shape, **x: launch(build, (*x, "out"), x | {"out": poison(shape)})["out"]  # noqa: E731
    cut, square = (B, NH, T, HS), (B, NH, T, T)
    qh, kh, vh = (step(heads.forward, cut, inp=x) for x in (q, k, v))
    s = step(attention_steps.mask_forward, square, inp=step(attention_steps.scores_forward, square, q=qh, k=kh))
    p = step(attention_steps.softmax_forward, square, inp=s)
    out = step(heads.forward, q.shape, inp=step(attention_steps.weighted_sum_forward, cut, p=p, v=vh))
    x = {"q": q, "k": k, "v": v, "out": poison(q.shape), "lse": poison((B, NH, T))}
    whole = launch(attention_flash.forward, tuple(x), x)["out"]
    assert_close("five steps against one", out, whole, 1e-6)


def test_shapes_that_do_not_fit_are_refused():
    q, lse = np.zeros((6, 8), np.float32), np.zeros((1, 3, 6), np.float32)
    with pytest.raises(KernelError, match=r"attention: q has shape \(6, 8\), expected 6 rows and a multiple of 3 col"):
        attention_flash.forward(q, q, q, q, lse)
    wide = np.zeros((6, 65), np.float32)
    with pytest.raises(KernelError, match="attention: a head has 65 columns, expected at most 64"):
        attention_flash.forward(wide, wide, wide, wide, np.zeros((1, 1, 6), np.float32))
    with pytest.raises(KernelError, match=r"heads: shapes \(6, 8\) and \(1, 2, 6, 3\)"):
        heads.forward(q, np.zeros((1, 2, 6, 3), np.float32))


@pytest.mark.parametrize("HS", [5, 32])
def test_bits_do_not_depend_on_the_vectors_the_kernel_is_made_for(HS):
    """Strips of 2 are for AVX2, of 8 for AVX-512: a run goes on with the same bits on the other processor."""
    rng = np.random.default_rng(HS)
    B, NH, T = 1, 2, 70
    x = {n: normal(rng, T, NH * HS) for n in ("q", "k", "v", "out", "dout", "dq", "dk", "dv")}
    x["lse"] = reference.attention_forward(x["q"], x["k"], x["v"], B, NH)[1].astype(np.float32)
    scale, seen = np.float32(HS**-0.5), set()
    for strip in (2, 8):
        forward = attention_flash.make_forward(HS, strip)[(3, NH, B), 32]
        backward = attention_flash.make_backward(HS, strip)[(NH, B), 32]
        first = launch(lambda *a: [forward.bind(*a, T, scale)], ("q", "k", "v", "out", "lse"), x)  # noqa: B023
        second = launch(lambda *a: [backward.bind(*a, T, scale)], ATTN.bwd_args, x)  # noqa: B023
        seen.add(b"".join(a.tobytes() for a in (*first.values(), *second.values())))
    assert len(seen) == 1


def compiles_without_spills(kernel, cc, folder):
    ptx = compile_ptx(kernel, cc)
    assert ".f64" not in ptx
    usage = assemble(ptx, cc, folder)
    assert usage.spills == 0, f"{kernel.name} at {cc}: {usage}"


@pytest.mark.parametrize("strip", [2, 8])
@pytest.mark.parametrize("make", [attention_flash.make_forward, attention_flash.make_backward])
def test_the_widest_heads_spill_nothing(make, strip, tmp_path):
    """HS = 64 keeps three arrays of 64 numbers in a thread's registers."""
    compiles_without_spills(make(64, strip), (7, 5), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("HS", [8, 16, 48, 64])
@pytest.mark.parametrize("make", [attention_flash.make_forward, attention_flash.make_backward])
def test_heads_of_other_sizes_spill_nothing(make, HS, tmp_path):
    """In the form that a GPU runs."""
    for cc in CAPABILITIES:
        compiles_without_spills(make(HS, attention_flash.CARD_STRIP), cc, tmp_path)


class Bound:
    """A kernel that binds nothing."""

    def __getitem__(self, config):
        return self

    def bind(self, *args):
        return None


def test_a_gpu_runs_one_form_whatever_its_host_is(monkeypatch):
    made = []
    monkeypatch.setattr(attention_flash, "current", lambda: "cuda")
    for make in ("make_forward", "make_backward"):
        monkeypatch.setattr(attention_flash, make, lambda *form: made.append(form) or Bound())
    x = {n: np.zeros((6, 8), np.float32) for n in ("q", "k", "v", "out", "dout", "dq", "dk", "dv")}
    x["lse"] = np.zeros((1, 2, 6), np.float32)
    attention_flash.forward(*(x[n] for n in ("q", "k", "v", "out", "lse")))
    attention_flash.backward(*(x[n] for n in ATTN.bwd_args))
    assert made == [(4, attention_flash.CARD_STRIP)] * 2


def test_the_map_names_what_attention_saves():
    assert attention.ATTN.saved == ("q", "k", "v", "out", "lse")

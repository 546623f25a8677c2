"""The judges convict: each kind of fault, planted in a sound operation written in NumPy, is found by its judge."""

import numpy as np
import pytest
from cases import normal, rows
from judges import Op, judge_adds, judge_backward, judge_bits, judge_differences, judge_forward

from kernels.target import Launch, current, use


def scaled(fault: str = ""):
    """out = inp * w and its twin as launches; `fault` names what is wrong with them."""

    def forward(inp, w, out):
        def work():
            out[:] = inp * w
            if fault == "forward":
                out[:] *= np.float32(1.0001)
            if fault == "unwritten":
                out[0, 0] = np.nan
            if fault == "input":
                inp[0, 0] += np.float32(1.0)

        return [Launch("scaled", [(work, ())])]

    def backward(inp, w, dout, dinp, dw, scratch):
        state = np.random.default_rng()

        def work():
            scratch[:] = dout * inp if fault != "scratch" else dout
            dinp[:] = dout * w + (np.float32(0.0) if fault == "assign" else dinp)
            dw[:] += (dout * inp).sum(axis=0) * np.float32(1.0001 if fault == "backward" else 1.0)
            if fault == "again":
                dw[:] += dw
            if fault == "bits":
                dw[:] += np.float32(1e-5) * state.random(dw.shape, np.float32)

        return [Launch("scaled", [(work, ())])]

    return forward, backward


def an_op(fault: str = "", slope: float = 1.0) -> Op:
    return Op(
        name="scaled",
        make=lambda rng, N, C, scale=1.0, dead=False: {"inp": normal(rng, N, C, scale=scale), "w": normal(rng, C)},
        shapes=rows(),
        paths={"production": scaled(fault)},
        fwd_args=("inp", "w", "out"),
        bwd_args=("inp", "w", "dout", "dinp", "dw", "scratch"),
        reference_forward=lambda x: {"out": x["inp"] * x["w"]},
        reference_backward=lambda x: {
            "dinp": slope * x["dout"] * x["w"],
            "dw": (x["dout"] * x["inp"]).sum(axis=0),
            "scratch": x["dout"] * x["inp"],
        },
        incoming={"dout": "out"},
        grads={"dinp": "inp", "dw": "w"},
        scratch=("scratch",),
    )


@pytest.fixture(autouse=True)
def on_the_cpu():
    """NumPy stands for the kernels here."""
    with use("cpu"):
        assert current() == "cpu"
        yield


def judge_all(op: Op) -> None:
    judge_forward(op, "production", "odd", 0)
    judge_backward(op, "production", "odd", 0)
    judge_adds(op, "production", "odd")
    judge_bits(op, "production", "odd")
    judge_differences(op, "odd")


def test_sound_operation_passes():
    judge_all(an_op())


@pytest.mark.parametrize(
    ("fault", "judge"),
    [
        ("forward", judge_forward),
        ("unwritten", judge_forward),
        ("input", judge_forward),
        ("backward", judge_backward),
        ("scratch", judge_backward),
        ("assign", judge_adds),
        ("again", judge_adds),
    ],
)
def test_planted_fault_is_found(fault, judge):
    with pytest.raises(AssertionError, match=r"scaled|inp"):
        judge(an_op(fault), "production", "odd", 0)


def test_bits_that_move_are_found():
    with pytest.raises(AssertionError, match="dw has other bits"):
        judge_bits(an_op("bits"), "production", "odd")


def test_a_wrong_reference_is_found():
    with pytest.raises(AssertionError, match=r"reference, odd: dinp"):
        judge_differences(an_op(slope=1.0 + 1e-6), "odd")

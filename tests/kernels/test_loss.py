"""The loss, its head and its cross-entropy: the generic judges, ignored rows, shared memory."""

import numpy as np
import pytest
from cases import HEAD, LOSS, XENT
from judges import SEEDS, backward_case, forward_case, launch
from suite import pair_tests

globals().update(pair_tests(HEAD, LOSS, XENT))


@pytest.mark.parametrize("path", LOSS.paths)
@pytest.mark.parametrize("shape", LOSS.shapes)
def test_gradient_of_logits_may_overwrite_the_logits(path, shape):
    """dlogits and logits as one array give the bits of two arrays."""
    x, _ = backward_case(LOSS, shape, seed=0)
    apart = launch(LOSS.paths[path][1], LOSS.bwd_args, x)

    def in_place(inp, head, targets, logits, lse, dlosses, dinp, dhead):
        return LOSS.paths[path][1](inp, head, targets, logits, lse, dlosses, logits, dinp, dhead)

    together = launch(in_place, tuple(n for n in LOSS.bwd_args if n != "dlogits"), x)
    for name in LOSS.grads:
        assert together[name].tobytes() == apart[name].tobytes()


@pytest.mark.parametrize("op", [LOSS, XENT], ids=lambda op: op.name)
def test_all_targets_ignored_is_exactly_zero(op):
    for path, (forward, backward) in op.paths.items():
        x, _ = forward_case(op, "masked", seed=0)
        assert not launch(forward, op.fwd_args, x)["losses"].any(), path
        x, _ = backward_case(op, "masked", seed=0)
        after = launch(backward, op.bwd_args, x)
        for name in op.grads:
            assert (after[name] == x[name]).all(), f"{path}: {name}"


def test_the_large_logits_do_overflow_without_the_maximum():
    """The shape "large" is worth its name: exp() of its logits is infinite in float32."""
    for seed in SEEDS:
        x, _ = forward_case(XENT, "large", seed)
        with np.errstate(over="ignore"):
            assert np.isinf(np.exp(x["logits"])).any(axis=1).any()

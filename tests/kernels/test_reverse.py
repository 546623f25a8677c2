"""Why a gradient runs backwards: the chain rule, the number of passes, and one step of it with numbers to check."""

import numpy as np
import pytest
from judges import assert_close

from kernels import reference as ref
from kernels import target
from kernels.pairs import PAIRS

H = 1e-30  # the imaginary step: f(x + iH) / H is the derivative, with nothing to cancel


def jacobian(f, x) -> np.ndarray:
    """d f(x)[i] / d x[j], one pass of f for each element of x."""
    columns = []
    for j in range(x.size):
        nudged = x.astype(complex)
        nudged.flat[j] += 1j * H
        columns.append(f(nudged).imag.ravel() / H)
    return np.stack(columns, axis=1)


def test_the_chain_rule_multiplies_local_jacobians_from_the_loss_backwards():
    """loss = f(g(h(x))): the product of three Jacobians, and the same number without making any of them."""
    rng = np.random.default_rng(0)
    x, w, targets = rng.standard_normal((1, 6)), rng.standard_normal((6, 4)), np.array([[2]])
    pre = ref.linear_forward(x, w)
    act = ref.gelu_forward(pre)
    lse, loss = ref.xent_forward(act, targets)
    local = [
        jacobian(lambda a: ref.xent_forward(a, targets)[1], act),
        jacobian(ref.gelu_forward, pre),
        jacobian(lambda a: ref.linear_forward(a, w), x),
    ]
    assert [j.shape for j in local] == [(1, 4), (4, 4), (4, 6)]
    d = np.ones_like(loss)  # where backward starts: the derivative of the loss by itself
    dact = ref.xent_backward(act, targets, lse, d)
    dpre = ref.gelu_backward(pre, dact)
    dx, _ = ref.linear_backward(x, w, dpre)
    assert_close("by the last", dact, local[0], 1e-12)
    assert_close("by the last two", dpre, local[0] @ local[1], 1e-12)
    assert_close("by all three", dx, local[0] @ local[1] @ local[2], 1e-12)


def small(layers) -> tuple[dict, np.ndarray, np.ndarray]:
    """Weights, tokens and targets of a tied model of width 2, with 3 token ids and 2 places."""
    rng = np.random.default_rng(1)
    shapes = {"wte": (3, 2), "wpe": (2, 2), "ln_f.gamma": (2,), "ln_f.beta": (2,)}
    for i in range(layers):
        shapes |= {f"layer{i}.W_{n}": (2, 2) for n in "QKVO"} | {f"layer{i}.W_1": (2, 8), f"layer{i}.W_2": (8, 2)}
        shapes |= {f"layer{i}.{n}": (2,) for n in ("ln1.gamma", "ln1.beta", "ln2.gamma", "ln2.beta")}
    weights = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    return weights, np.array([[0, 2], [1, 1]]), np.array([[2, 1], [1, 0]])


def counting(monkeypatch) -> dict[str, int]:
    """How often the whole model is run forward and backward from now on."""
    passes = {"model_forward": 0, "model_backward": 0}

    def counted(name, run):
        def one_more(*args):
            passes[name] += 1
            return run(*args)

        return one_more

    for name in passes:
        monkeypatch.setattr(ref, name, counted(name, getattr(ref, name)))
    return passes


@pytest.mark.parametrize("layers", [1, 2])
def test_one_pass_back_gives_all_gradients_and_forward_mode_takes_one_pass_a_weight(layers, monkeypatch):
    weights, tokens, targets = small(layers)
    passes = counting(monkeypatch)
    _, grads = ref.mean_loss_and_grads(weights, tokens, targets, 1)
    assert passes == {"model_forward": 1, "model_backward": 1}
    n = sum(w.size for w in weights.values())
    assert sum(g.size for g in grads.values()) == n == 14 + 56 * layers
    passes["model_forward"] = 0
    for name, w in weights.items():

        def mean(a, name=name):
            return ref.model_forward(weights | {name: a}, tokens, targets, 1)[0].mean(keepdims=True)

        assert_close(name, grads[name].ravel(), jacobian(mean, w).ravel(), 1e-9)
    assert passes == {"model_forward": n, "model_backward": 1}


@pytest.mark.parametrize("path", ["named_backward", "backward"])
def test_backward_starts_at_the_loss_not_at_the_logits(path):
    """With equal logits the softmax is 1/4 everywhere: dlogits = (1/4 - onehot) / 2 for a mean over two rows."""
    inp, head = np.zeros((2, 3), np.float32), np.ones((4, 3), np.float32)
    targets, logits = np.array([[1, 3]], np.int32), np.zeros((2, 4), np.float32)
    lse, dlosses = np.full(2, np.log(4.0), np.float32), np.full(2, 0.5, np.float32)
    dlogits, dinp, dhead = (np.zeros(shape, np.float32) for shape in ((2, 4), (2, 3), (4, 3)))
    want = np.array([[0.125, -0.375, 0.125, 0.125], [0.125, 0.125, 0.125, -0.375]])
    assert_close("reference", ref.xent_backward(logits, targets, lse, dlosses), want, 1e-6)
    x = [target.to_device(a) for a in (inp, head, targets, logits, lse, dlosses, dlogits, dinp, dhead)]
    target.run(getattr(PAIRS["loss"], path)(*x))
    if path == "backward":
        assert_close("dlogits", target.copy_to_host(x[6]), want, 1e-6)
    assert np.abs(target.copy_to_host(x[7])).max() < 1e-6  # each row of dlogits sums to 0, and all rows of head agree


def test_one_step_back_by_hand():
    """A product below a sum: the sum hands dout on to both sides, the product makes dinp and dw of it, adding to both.

    dinp = dout @ w.T = [1, -1] @ [[5, 7], [6, 8]] = [-1, -1]; dw = inp.T @ dout = [2, 3]^T [1, -1].
    """
    a = lambda *rows: target.to_device(np.array(rows, np.float32))  # noqa: E731
    inp, w, dout = a([2, 3]), a([5, 6], [7, 8]), a([1, -1])
    stream, branch, dinp, dw = a([10, 10]), a([0, 0]), a([100, 100]), a([0, 0], [0, 0])
    target.run(PAIRS["residual"].named_backward(dout, stream, branch))
    (launch,) = PAIRS["attn_out"].named_backward(inp, w, branch, dinp, dw)
    target.run([launch])
    found = [target.copy_to_host(x).tolist() for x in (stream, branch, dinp, dw)]
    assert found == [[[11, 9]], [[1, -1]], [[99, 99]], [[2, -2], [3, -3]]]
    target.run([launch])
    assert target.copy_to_host(dw).tolist() == [[4, -4], [6, -6]], "a second microbatch adds"

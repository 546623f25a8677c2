"""What an engine's weight file holds, byte for byte: the header, and w, m and v cut by the model's own order."""

import struct

import numpy as np
import pytest

from andrea_lab.checkpoint import single
from andrea_lab.checkpoint.save import save
from andrea_lab.model.layout import layout
from tests.engine.tiny import config, engine, one, vectors

ENTRY = {"segment": 1}


@pytest.fixture
def trained(tmp_path):
    """An untied model after two steps, saved after each: the folder, and the vectors after each."""
    made = engine(config(decay=0.0, clip=0.0, warmup=0), run_dir=tmp_path)
    after = {}
    for step in (1, 2):
        one(made)
        made.save({"step": step, "entry": ENTRY | {"step": step}})
        after[step] = vectors(made)
    made.close()
    return tmp_path, after


def regions(path) -> tuple[tuple[int, int], list[np.ndarray]]:
    """The file read by hand: (step, n), and three vectors."""
    data = path.read_bytes()
    step, n = struct.unpack_from("<ii", data)
    return (step, n), [np.frombuffer(data, "<f4", n, 8 + 4 * n * region) for region in range(3)]


def test_eight_bytes_of_header_then_three_arrays_of_one_shape(trained):
    folder, after = trained
    assert struct.calcsize("<ii") == single.HEADER.size == 8
    for step, vector in after.items():
        path = folder / f"step_{step:06d}.bin"
        (found, n), arrays = regions(path)
        assert (found, n) == (step, layout(config().model).n_params)
        assert path.stat().st_size == 8 + 12 * n == 8 + sum(array.nbytes for array in arrays)
        for array, name in zip(arrays, ("weights", "m", "v"), strict=True):
            assert array.shape == (n,) and array.tobytes() == vector[name].tobytes()


def test_weights_are_flat_in_the_order_of_the_models_tensors_the_head_last(trained):
    folder, _ = trained
    (_, n), arrays = regions(folder / "step_000002.bin")
    model = config().model
    names = [tensor.name for tensor in layout(model)]
    inside = ["ln1.gamma", "ln1.beta", "W_Q", "W_K", "W_V", "W_O", "ln2.gamma", "ln2.beta", "W_1", "W_2"]
    blocks = [f"layer{i}.{name}" for i in range(model.layers) for name in inside]
    assert names == ["wte", "wpe", *blocks, "ln_f.gamma", "ln_f.beta", "lm_head"]
    made = engine(config(), weights=folder / "step_000002.bin")
    end = 0
    for tensor in layout(model):
        assert tensor.offset == end
        values = np.asarray(made.graph.weights[tensor.name])
        assert arrays[0][tensor.offset : tensor.stop].tobytes() == values.tobytes() and values.shape == tensor.shape
        end = tensor.stop
    assert end == n
    made.close()


def test_m_and_v_are_the_averages_of_the_gradient_and_of_its_square(trained):
    folder, _ = trained
    (_, first), (_, second) = (regions(folder / f"step_{step:06d}.bin") for step in (1, 2))
    m1, v1, m2, v2 = (a.astype(np.float64) for a in (*first[1:], *second[1:]))
    g1, g2 = m1 / (1 - 0.9), (m2 - 0.9 * m1) / (1 - 0.9)  # what m says the gradients were ...
    assert np.linalg.norm(g1) > 0 and np.linalg.norm(g2 - g1) > 0.1 * np.linalg.norm(g1)
    for found, expected in ((v1, 0.001 * g1**2), (v2, 0.999 * v1 + 0.001 * g2**2)):  # ... v says too
        assert np.linalg.norm(found - expected) < 1e-4 * np.linalg.norm(found)


@pytest.mark.parametrize("lost", ["m", "v"])
def test_without_m_or_v_the_next_step_is_another(trained, tmp_path, lost):
    folder, _ = trained
    step, w, m, v = single.read(folder / "step_000002.bin")
    other = tmp_path / "lost" / "step_000002.bin"
    other.parent.mkdir()
    save(other.parent, step, w, m * (lost != "m"), v * (lost != "v"))
    moved = []
    for path in (folder / "step_000002.bin", other):
        made = engine(config(decay=0.0, clip=0.0, warmup=0), weights=path)
        assert one(made)["step"] == 3
        moved.append(vectors(made)["weights"].astype(np.float64) - w)
        made.close()
    assert np.linalg.norm(moved[1] - moved[0]) > 0.3 * np.linalg.norm(moved[0])

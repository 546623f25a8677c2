"""`andrea inspect`: header, sizes, digest, verdict, entry and norms, without holding the file."""

import json
import struct
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from andrea_lab.checkpoint.save import save
from andrea_lab.checkpoint.single import file_name, read_header
from andrea_lab.checkpoint.sums import read_sum, sum_path
from andrea_lab.commands.inspect import measure
from andrea_lab.commands.show import sizes
from tests.run.made import TENSORS, N, arrays, entry


def test_inspect_shows_header_sizes_digest_verdict_entry_and_norms(call, run):
    code, out, err = call("inspect", "tiny/step_000020.bin")
    about = read_sum(run.weights(20))
    assert (code, err) == (0, "")
    flat = " ".join(out.split())
    assert "step 20 parameters 41,856 size 8 + 12 x 41,856 = 502,280 bytes = 0.50 MB = 0.48 MiB" in flat
    assert f"sha256 {about.sha256} verdict committed" in flat and "entry: loss 5.3" in flat
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}
    w, m, v = arrays(20)
    cut = slice(TENSORS[4][1], TENSORS[4][1] + TENSORS[4][2])
    assert rows["layer0.W_Q"][0] == "1,024"
    for shown, region in zip(rows["layer0.W_Q"][1:4], (w, m, v), strict=True):
        assert float(shown) == pytest.approx(np.linalg.norm(region[cut].astype(float)), rel=1e-3)


def test_inspect_json_has_the_norms_and_the_update_of_every_tensor(call, run):
    code, out, _ = call("inspect", "tiny/step_000020.bin", "--json")
    found = json.loads(out)
    assert code == 0 and (found["step"], found["n_params"], found["nbytes"]) == (20, N, 8 + 12 * N)
    assert found["entry"] == entry(20, 5.3) and found["note"] is None
    assert [(each["name"], each["size"]) for each in found["tensors"]] == [(name, n) for name, _, n in TENSORS]
    w, m, v = (a.astype(np.float64) for a in arrays(20))
    update = m / (1 - 0.9**20) / (np.sqrt(v / (1 - 0.999**20)) + 1e-8)
    for each, (_, at, size) in zip(found["tensors"], TENSORS, strict=True):
        for name, values in (("w", w), ("m", m), ("v", v)):
            assert each[name] == pytest.approx(np.linalg.norm(values[at : at + size]), rel=1e-12)
        assert each["update"] == pytest.approx(np.sqrt(np.mean(update[at : at + size] ** 2)), rel=1e-12)


def test_without_a_fitting_configuration_the_regions_are_not_cut(call, run, tmp_path):
    save(tmp_path, 7, *arrays(0, 50))
    found = json.loads(call("inspect", "step_000007.bin", "--json")[1])
    assert "config.json: found No such file" in found["note"]
    save(run.path, 7, *arrays(0, 50))
    other = json.loads(call("inspect", "tiny/step_000007.bin", "--json")[1])
    assert other["note"].endswith(f"found a model of {N} parameters, expected 50")
    assert found["tensors"] == other["tensors"] and len(found["tensors"]) == 1
    all_ = found["tensors"][0]
    assert (all_["name"], all_["size"], all_["update"]) == ("all", 50, None)
    assert all_["w"] == pytest.approx(np.linalg.norm(arrays(0, 50)[0].astype(float)))


@pytest.mark.parametrize(("sum_there", "verdict"), [(True, "flipped"), (False, "non-finite")])
def test_a_damaged_file_is_shown_with_its_verdict_and_exit_code_1(call, run, sum_there, verdict):
    data = bytearray(run.weights(20).read_bytes())
    data[8:12] = struct.pack("<f", np.inf)
    run.weights(20).write_bytes(data)
    if not sum_there:
        sum_path(run.weights(20)).unlink()
    code, out, err = call("inspect", "tiny/step_000020.bin")
    assert (code, err) == (1, "") and verdict in out and "wte" in out
    code, out, _ = call("inspect", "tiny/step_000020.bin", "--json")
    found = json.loads(out)
    assert code == 1 and found["verdict"] == verdict and found["tensors"][0]["w"] is None


@pytest.mark.parametrize(
    ("damage", "words"),
    [("cut", "bytes, expected"), ("header", "bytes, expected"), ("name", "expected 21 as in the name")],
)
def test_a_file_that_cannot_be_cut_into_arrays_is_exit_code_2(call, run, damage, words):
    data = run.weights(20).read_bytes()
    if damage == "name":
        run.weights(20).rename(run.weights(21))
    else:
        run.weights(20).write_bytes(data[:-1] if damage == "cut" else data[:4] + b"\x01" + data[5:])
    code, out, err = call("inspect", f"tiny/{run.weights(21 if damage == 'name' else 20).name}")
    assert (code, out, err.count("\n")) == (2, "", 1) and words in err


def test_a_file_without_a_sum_is_unverified_and_has_no_entry(call, run):
    sum_path(run.weights(20)).write_bytes(b"\xff\x00")
    found = json.loads(call("inspect", "tiny/step_000020.bin", "--json")[1])
    assert (found["verdict"], found["entry"]) == ("unverified", None) and len(found["sha256"]) == 64


def test_inspect_holds_no_copy_of_the_file(tmp_path):
    n = 2_000_000
    path = tmp_path / file_name(1)
    with open(path, "wb") as file:
        file.write(struct.pack("<ii", 1, n))
        file.truncate(8 + 12 * n)
    tracemalloc.start()
    try:
        found = list(measure(path, 1, n, [("all", 0, n)]))
        assert tracemalloc.get_traced_memory()[1] < 12 * n / 5
    finally:
        tracemalloc.stop()
    assert found == [{"name": "all", "size": n, "w": 0.0, "m": 0.0, "v": 0.0, "update": None}]


def test_two_hundred_million_parameters_are_a_size_beyond_32_bits(tmp_path):
    """8 + 12 n wraps in int32 from n = 178,956,970 on; the file is sparse, the header is all that is read."""
    n = 200_000_000
    path = tmp_path / file_name(700_000)
    with open(path, "wb") as file:
        file.write(struct.pack("<ii", 700_000, n))
        file.truncate(8 + 12 * n)
    tracemalloc.start()
    try:
        assert read_header(path) == (700_000, n)
        tail = measure(path, 700_000, n, [("last", n - 5, 5)])
        assert next(tail)["v"] == 0.0
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
    assert sizes(path.stat().st_size) == ("2,400.00", "2,288.82")


def test_published_sizes_in_both_units():
    assert sizes(8 + 12 * 12_800_000) == ("153.60", "146.48")  # "154 MB" is MB, "147 MB" is MiB
    assert sizes(8 + 12 * 120_000_000) == ("1,440.00", "1,373.29")


def test_a_byte_is_named_with_its_tensor_its_place_and_its_value(call, run):
    tensor, at, _ = TENSORS[4]
    byte = 8 + 4 * (N + at + 33) + 2  # in m
    code, out, err = call("inspect", "tiny/step_000020.bin", "--byte", byte)
    value = arrays(20)[1][at + 33]
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"byte {byte:,}: m, {tensor}, number 33 = [1, 1], byte 2 of its 4",
        f"  byte 134 of the tensor; the number begins at byte {byte - 2:,} of the file",
        f"  its value: {value:.9g}",
    ]
    found = json.loads(call("inspect", "tiny/step_000020.bin", "--byte", byte, "--json")[1])
    assert (found["region"], found["tensor"], found["index"], found["offset"]) == ("m", tensor, [1, 1], 134)
    assert (found["element"], found["first"], np.float32(found["value"])) == (33, byte - 2, value)


def test_a_byte_of_the_header_is_its_field(call, run):
    code, out, _ = call("inspect", "tiny/step_000020.bin", "--byte", 4)
    assert code == 0 and out.splitlines() == ["byte 4: header, byte 0 of n, an int32", f"  its value: {N}"]


@pytest.mark.parametrize("byte", [-1, 8 + 12 * N])
def test_a_byte_outside_the_file_is_refused_in_one_line(call, run, byte):
    code, out, err = call("inspect", "tiny/step_000020.bin", "--byte", byte)
    assert (code, out, err.count("\n")) == (2, "", 1) and f"found {byte}, expected 0 to {7 + 12 * N}" in err


def test_the_picture_of_a_file_marks_the_byte(call, run):
    code, out, _ = call("inspect", "tiny/step_000020.bin", "--figure", "whole.png")
    assert code == 0 and "figure: whole.png" in out and "norms" in out
    code, out, _ = call("inspect", "tiny/step_000020.bin", "--byte", 9000, "--figure", "byte.png")
    assert code == 0 and "figure: byte.png" in out and "norms" not in out
    with Image.open("whole.png") as whole, Image.open("byte.png") as marked:
        assert whole.width == marked.width and whole.height < marked.height  # which says what the byte is


def test_a_picture_that_could_not_be_written_is_refused_before_the_file_is_read(call, run):
    for name in ("picture.gif", "nowhere/picture.png"):
        code, out, err = call("inspect", "tiny/step_000020.bin", "--figure", name)
        assert (code, out) == (2, "") and err.count("\n") == 1 and f"--figure: found '{name}'" in err

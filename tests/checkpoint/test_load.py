"""Loading: what is refused, before what, in which words; and what a changed byte is called."""

import os
import resource
import struct
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from andrea_lab.checkpoint.load import load
from andrea_lab.checkpoint.save import save
from andrea_lab.checkpoint.single import CheckpointError, file_name, read, read_header, read_into
from andrea_lab.checkpoint.sums import read_sum, sum_path, write_sum
from andrea_lab.checkpoint.verify import examine
from tests.checkpoint.faults import Faulty
from tests.checkpoint.material import TENSORS, N, arrays, bits, blank, put

SIZE = 8 + 12 * N


def refusal(path, n=N, **more):
    """The error of a load, after a look at whether `examine` says the same."""
    into = blank(n)
    with pytest.raises(CheckpointError) as caught:
        load(path, *into, **more)
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and "\n" not in text
    verdict = examine(path)
    assert (verdict.verdict, verdict.reason) == (caught.value.verdict, text.removeprefix(f"{path}: "))
    return caught.value


def test_what_was_saved_is_loaded_and_verified(tmp_path):
    saved = put(tmp_path, 7, 0, entry={"step": 7})
    into, looks = blank(), []
    loaded = load(saved.file, *into, between=lambda: looks.append(1))
    assert bits(into) == bits(arrays(0)) and len(looks) == 3
    assert (loaded.step, loaded.sha256, loaded.verified, loaded.reason) == (7, saved.sha256, True, "")
    assert loaded.sum == read_sum(saved.file) and loaded.sum.entry == {"step": 7}
    step, *again = read(saved.file)
    assert step == 7 and bits(again) == bits(into)


@pytest.mark.parametrize("sum_there", [True, False])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 8 + 4 * N - 1, SIZE - 1, SIZE + 1, SIZE + 4096])
def test_another_size_is_refused_with_both_sizes(tmp_path, size, sum_there):
    path = put(tmp_path, 7, 0).file
    if not sum_there:
        sum_path(path).unlink()
    path.write_bytes((path.read_bytes() + bytes(4096))[:size])
    error = refusal(path)
    least = "at least the 8 of the header" if size < 8 else f"{SIZE} = 8 + 12 * {N}"
    assert error.verdict == "torn" and f"found {size} bytes, expected {least}" in str(error)


HEADERS = [
    (7, 0, "torn", "n_params: found 0, expected a positive number"),
    (7, -1, "torn", "n_params: found -1, expected a positive number"),
    (7, -(2**31), "torn", "n_params: found -2147483648, expected a positive number"),
    (7, 2**31 - 1, "torn", "found 296 bytes, expected 25769803772 = 8 + 12 * 2147483647"),
    (-1, N, "wrong step", "step: found -1, expected 0 or more"),
    (2**31 - 1, N, "wrong step", "step: found 2147483647 in the header, expected 7 as in the name"),
    (8, N, "wrong step", "step: found 8 in the header, expected 7 as in the name"),
]


@pytest.mark.parametrize(("step", "n", "verdict", "message"), HEADERS)
def test_a_header_is_refused_before_anything_is_allocated(tmp_path, step, n, verdict, message):
    path = tmp_path / "step_000007.bin"
    path.write_bytes(struct.pack("<ii", step, n) + bits(arrays(0)))
    into = blank()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    try:
        for refuse in (lambda: load(path, *into), lambda: read(path), lambda: read_header(path)):
            with pytest.raises(CheckpointError) as caught:
                refuse()
            assert (str(caught.value), caught.value.verdict) == (f"{path}: {message}", verdict)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 100_000 and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 10_000
    assert all(np.isnan(a).all() for a in into)
    assert refusal(path).verdict == verdict


def test_a_file_of_another_model_is_refused_untouched(tmp_path):
    path = put(tmp_path, 7, 0).file
    into = blank(N + 1)
    with pytest.raises(CheckpointError, match=f"found {N} parameters, expected {N + 1}"):
        load(path, *into)
    with pytest.raises(CheckpointError, match="expected contiguous little-endian float32"):
        load(path, np.zeros(N), *blank()[:2])
    assert all(np.isnan(a).all() for a in into)
    assert examine(path, n_params=N + 1).reason == f"found {N} parameters, expected {N + 1}"
    assert examine(path, n_params=N).verdict == "committed"


def fifo(path):
    os.mkfifo(path)


def symlink(path):
    other = path.with_name("other")
    other.mkdir()
    path.symlink_to(put(other, 7, 0).file)


def dangling(path):
    path.symlink_to("nowhere")


def zero(path):
    path.symlink_to("/dev/zero")


KINDS = [(fifo, "a pipe"), (symlink, "a symbolic link"), (dangling, "a symbolic link"), (zero, "a symbolic link")]
KINDS += [(lambda path: path.mkdir(), "a folder"), (lambda path: None, "no file")]


@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_what_is_no_file_is_refused_and_nothing_hangs(tmp_path, make, kind):
    path = tmp_path / "step_000007.bin"
    make(path)
    errors = []
    thread = threading.Thread(target=lambda: errors.append(refusal(path)), daemon=True)
    thread.start()
    thread.join(60)
    assert [str(error) for error in errors] == [f"{path}: found {kind}, expected a weight file"]
    assert errors[0].verdict == "torn"
    for refuse in (read, read_header, lambda path: read_into(path, *blank())):
        with pytest.raises(CheckpointError, match=f"found {kind}"):
            refuse(path)


def test_a_device_is_refused():
    with pytest.raises(CheckpointError, match="/dev/zero: found a device, expected a weight file"):
        load(Path("/dev/zero"), *blank())


def flip(path, at, bit=0):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def part(at, tensors=TENSORS, n=N):
    """The name of what byte `at` lies in."""
    if at < 8:
        return "header"
    element = (at - 8) // 4
    region, place = "wmv"[element // n], element % n
    return f"{region} {next(name for name, offset, size in tensors if offset <= place < offset + size)}"


@pytest.mark.parametrize("at", range(SIZE))
def test_every_changed_byte_of_a_small_file_is_found_and_named(tmp_path, at):
    path = put(tmp_path, 7, 0).file
    flip(path, at, at % 8)
    error = refusal(path)
    assert error.verdict == "flipped" and str(error).startswith(f"{path}: {part(at)}: found ")


def test_the_file_before_the_last_is_as_well_known(tmp_path):
    path = put(tmp_path, 7, 0).file
    known = read_sum(path)
    path2 = put(tmp_path, 7, 1).file
    assert path == path2 and read_sum(path).before == known
    path.write_bytes((tmp_path / "step_000007.bin.was-1").read_bytes())
    into = blank()
    loaded = load(path, *into)
    assert bits(into) == bits(arrays(0)) and (loaded.verified, loaded.sum) == (True, known)
    assert examine(path).verdict == "committed"
    flip(path, 150)
    error = refusal(path)
    assert error.verdict == "flipped" and f"{part(150)}: found other bytes" in str(error)
    assert f"expected sha256 {known.sha256[:16]}" in str(error)


def test_a_changed_byte_of_300_in_a_larger_file(tmp_path):
    n = 300_003
    tensors = [("wte", 0, 100_000), ("wpe", 100_000, 1), ("layer0.W_1", 100_001, 199_999), ("lm_head", 300_000, 3)]
    path = save(tmp_path, 7, *arrays(0, n), tensors=tensors).file
    into, rng = blank(n), np.random.default_rng(1)
    edges = [0, 7, 8, 8 + 4 * n - 1, 8 + 4 * n, 8 + 12 * n - 1, 8 + 4 * 100_000, 8 + 4 * 100_001, 2**20, 2**20 + 7]
    for at in [*edges, *rng.integers(0, 8 + 12 * n, 290)]:
        flip(path, int(at), int(at) % 8)
        with pytest.raises(CheckpointError) as caught:
            load(path, *into)
        assert caught.value.verdict == "flipped" and f": {part(int(at), tensors, n)}: " in str(caught.value), at
        flip(path, int(at), int(at) % 8)
    assert load(path, *into).verified and bits(into) == bits(arrays(0, n))


def test_damage_in_many_places_is_counted(tmp_path):
    path = put(tmp_path, 7, 0).file
    for at in (8, 50, 104, 150, 200):
        flip(path, at)
    assert "w wte, w layer0.W_Q, m wte and 2 more: found other bytes than were saved" in str(refusal(path))


@pytest.mark.parametrize("damage", ["gone", "damaged", "empty", "pipe"])
def test_without_a_readable_sum_a_file_loads_as_unverified(tmp_path, damage):
    path = put(tmp_path, 7, 0).file
    sidecar = sum_path(path)
    if damage == "damaged":
        flip(sidecar, 100)
    else:
        sidecar.unlink()
    if damage == "empty":
        sidecar.touch()
    if damage == "pipe":
        os.mkfifo(sidecar)
    into = blank()
    loaded = load(path, *into)
    assert (loaded.step, loaded.verified, loaded.sum) == (7, False, None) and bits(into) == bits(arrays(0))
    assert ("found no sum beside it" if damage == "gone" else str(sidecar)) in loaded.reason
    found = examine(path)
    assert (found.verdict, found.reason) == ("unverified", loaded.reason)
    flip(path, 60)  # nobody can know, and nobody says that it is well
    assert examine(path).verdict == "unverified" and not load(path, *into).verified


def test_a_sum_of_another_file_is_no_sum_of_this_one(tmp_path):
    path, other = put(tmp_path, 7, 0).file, put(tmp_path, 8, 1).file
    write_sum(path, read_sum(other))
    error = refusal(path)
    assert error.verdict == "flipped" and "header, w wte, w layer0.W_Q and 7 more" in str(error)
    small = put(tmp_path, 9, 1, n=5).file
    write_sum(path, read_sum(small))
    assert f"found {N} parameters, expected 5 as in its sum" in str(refusal(path))


def test_a_file_moved_to_another_step_with_its_sum_is_of_the_wrong_step(tmp_path):
    path = put(tmp_path, 8, 0).file
    moved = tmp_path / file_name(7)
    sum_path(path).rename(sum_path(moved))
    path.rename(moved)
    error = refusal(moved)
    assert error.verdict == "wrong step" and "found 8 in the header, expected 7 as in the name" in str(error)
    moved.rename(tmp_path / "mine.bin")
    assert load(tmp_path / "mine.bin", *blank()).step == 8  # a name that says no step contradicts none


@pytest.mark.parametrize("sum_there", [True, False])
@pytest.mark.parametrize(("region", "at", "value"), [(0, 12, np.nan), (1, 0, np.inf), (2, 23, -0.5)])
def test_numbers_that_may_not_stand_there_are_refused_unless_they_are_asked_for(tmp_path, region, at, value, sum_there):
    path = put(tmp_path, 7, 0).file
    known, triple = read_sum(path), arrays(0)
    triple[region][at] = value
    with pytest.raises(CheckpointError):
        save(tmp_path, 7, *triple, tensors=TENSORS)
    path.write_bytes((tmp_path / "step_000007.bin.nonfinite-1").read_bytes())
    sum_path(path).unlink()
    if sum_there:  # as a writer without our rules would leave it
        own = examine(path)
        write_sum(path, type(known)(**{**vars(known), "sha256": own.sha256}))
    error = refusal(path)
    name = ("w layer0.W_Q[2]", "m wte[0]", "v ln_f.gamma[5]")[region] if sum_there else f"{'wmv'[region]}[{at}]"
    assert error.verdict == "non-finite" and f"{name}: found {value}, expected a finite number" in str(error)
    into = blank()
    loaded = load(path, *into, allow_nonfinite=True)
    assert bits(into) == bits(triple) and loaded.verified is sum_there


def test_every_failing_read_is_an_error_that_says_so(tmp_path):
    path = put(tmp_path, 7, 0).file
    honest = Faulty()
    load(path, *blank(), files=honest)
    verdicts = []
    for number in range(1, len(honest.ops) + 1):
        try:
            assert load(path, *blank(), files=Faulty(number)).verified  # the sum was read at the second try
        except CheckpointError as error:
            verdicts.append(error.verdict)
            assert "planted EIO" in str(error)
    assert set(verdicts) == {"unreadable"} and len(verdicts) == len(honest.ops) - 3

    class NoSum(Faulty):
        def open(self, path):
            if path.name.endswith(".sum"):
                raise OSError(5, "planted")
            return super().open(path)

    loaded = load(path, *blank(), files=NoSum())
    assert not loaded.verified and "planted" in loaded.reason


def test_short_reads_are_read_on(tmp_path):
    class Short(Faulty):
        def act(self, number, name, do, *args):
            return do(args[0], args[1][:3]) if name == "read" else do(*args)

    path = put(tmp_path, 7, 0).file
    into = blank()
    assert load(path, *into, files=Short()).verified and bits(into) == bits(arrays(0))
    assert examine(path, files=Short()).verdict == "committed"


def test_a_file_that_shrinks_or_grows_under_the_reader_is_refused(tmp_path):
    path = put(tmp_path, 7, 0).file
    data = path.read_bytes()
    for size, message in ((100, "found the end 96 bytes too early"), (SIZE + 9, "found bytes behind the last array")):

        def change(size=size):
            path.write_bytes((data + bytes(9))[:size])

        with pytest.raises(CheckpointError, match=message):
            load(path, *blank(), between=change)
        path.write_bytes(data)

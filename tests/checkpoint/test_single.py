"""The weight file: exact bytes, refusals before allocation, and no operation whose failure leaves half a file."""

import errno
import hashlib
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_lab.checkpoint import single
from andrea_lab.checkpoint.files import Files
from andrea_lab.checkpoint.single import CheckpointError


def arrays(n: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 2**32, n, np.uint32).view(np.float32) for _ in range(3)]


def bits(array: np.ndarray) -> bytes:
    return array.tobytes()


@settings(max_examples=30)
@given(st.integers(0, 2**31 - 1), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_the_bytes_are_exactly_the_published_ones(tmp_path_factory, step, n, seed):
    path = tmp_path_factory.mktemp("w") / "step.bin"
    w, m, v = arrays(n, seed)
    sha = single.write(path, step, w, m, v)
    data = path.read_bytes()
    assert data == struct.pack("<ii", step, n) + bits(w) + bits(m) + bits(v)
    assert len(data) == 8 + 12 * n == single.nbytes(n)
    assert sha == hashlib.sha256(data).hexdigest()
    got_step, *got = single.read(path)
    assert got_step == step and [bits(a) for a in got] == [bits(w), bits(m), bits(v)]


def test_published_size_of_12m():
    assert single.nbytes(12_790_272) == 153_483_272
    assert single.nbytes(np.int32(200_000_000)) == 2_400_000_008


def test_names_are_ordered_by_number(tmp_path):
    assert single.newest(tmp_path) is None
    for name in ("step_000900.bin", "step_999999.bin", "step_1000000.bin", "step_x.bin", ".step_2000000.bin.1.tmp"):
        (tmp_path / name).touch()
    assert single.newest(tmp_path).name == single.file_name(1_000_000) == "step_1000000.bin"
    assert single.file_name(42) == "step_000042.bin"


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 8 + 4 * 50 - 1, 8 + 12 * 50 - 1])
def test_truncated_file(tmp_path, cut):
    path = tmp_path / "step_000007.bin"
    single.write(path, 7, *arrays(50))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(CheckpointError) as caught:
        single.read(path)
    assert str(path) in str(caught.value) and f"found {cut} bytes, expected" in str(caught.value)


def test_oversized_file(tmp_path):
    path = tmp_path / "step_000007.bin"
    single.write(path, 7, *arrays(50))
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(CheckpointError, match=r"found 609 bytes, expected 608 = 8 \+ 12 \* 50"):
        single.read(path)


HEADERS = [
    (3, 0, "n_params: found 0, expected a positive number"),
    (3, -1, "n_params: found -1"),
    (3, -(2**31), "n_params: found -2147483648"),
    (-1, 2, "step: found -1, expected 0 or more"),
    (3, 2**31 - 1, "found 32 bytes, expected 25769803772"),
]


@pytest.mark.parametrize(("step", "n", "message"), HEADERS)
def test_header_is_judged_before_anything_is_allocated(tmp_path, step, n, message):
    path = tmp_path / "step_000003.bin"
    path.write_bytes(struct.pack("<ii", step, n) + bytes(24))
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=message):
            single.read(path)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_wrong_model_and_missing_file(tmp_path):
    path = tmp_path / "step_000003.bin"
    single.write(path, 3, *arrays(5))
    mine = arrays(6)
    before = [bits(a) for a in mine]
    with pytest.raises(CheckpointError, match="found 5 parameters, expected 6"):
        single.read_into(path, *mine)
    assert [bits(a) for a in mine] == before
    with pytest.raises(CheckpointError, match="found no file"):
        single.read(tmp_path / "none.bin")
    with pytest.raises(CheckpointError, match="found a folder, expected a weight file"):
        single.read(tmp_path)


def test_arrays_that_do_not_fit_the_format_are_refused(tmp_path):
    path = tmp_path / "s.bin"
    w, m, v = arrays(4)
    for bad in ((w.astype(np.float64), m, v), (w, m[:3], v), (w, m, arrays(8)[0][::2]), (w[:0], m[:0], v[:0])):
        with pytest.raises(CheckpointError, match="expected"):
            single.write(path, 1, *bad)
    for step in (-1, 2**31):
        with pytest.raises(CheckpointError, match="step: found"):
            single.write(path, step, w, m, v)
    assert not list(tmp_path.iterdir())


def test_a_weight_file_is_never_rewritten(tmp_path):
    path = tmp_path / "step_000001.bin"
    single.write(path, 1, *arrays(4))
    with pytest.raises(CheckpointError, match="never rewritten"):
        single.write(path, 1, *arrays(4, 1))
    assert single.read(path)[0] == 1


def test_pieces_of_eight_mebibytes(tmp_path):
    looks = []
    single.write(tmp_path / "s.bin", 1, *arrays(3 * 2**20), between=lambda: looks.append(1))
    assert len(looks) == 1 + 3 * 2  # the header, then 12 MiB three times


class Counting(Files):
    """Counts operations; fails the `fail_at`-th; can write short."""

    def __init__(self, fail_at: int = 0, short: int = 0):
        self.count, self.fail_at, self.short = 0, fail_at, short

    def _op(self) -> None:
        self.count += 1
        if self.count == self.fail_at:
            raise OSError(errno.EIO, "planted")

    def create(self, path):
        self._op()
        return super().create(path)

    def write(self, fd, data):
        self._op()
        return super().write(fd, data[: self.short] if self.short else data)

    def sync(self, fd):
        self._op()
        super().sync(fd)

    def size(self, fd):
        self._op()
        return super().size(fd)

    def close(self, fd):
        super().close(fd)
        self._op()

    def rename(self, old, new):
        self._op()
        super().rename(old, new)

    def sync_folder(self, path):
        self._op()
        super().sync_folder(path)


def test_every_operation_may_fail_and_nothing_half_written_shows(tmp_path):
    honest = Counting(short=100)
    single.write(tmp_path / "step_000001.bin", 1, *arrays(50), files=honest)
    total, old = honest.count, (tmp_path / "step_000001.bin").read_bytes()
    assert total >= 10
    for n in range(1, total + 1):
        new = tmp_path / "step_000002.bin"
        with pytest.raises(OSError, match="planted"):
            single.write(new, 2, *arrays(50, 5), files=Counting(fail_at=n, short=100))
        names = {file.name for file in tmp_path.iterdir()}
        if n < total:
            assert names == {"step_000001.bin"}, f"operation {n}"
        else:  # only the folder's sync failed: the whole file is there
            assert single.read(new)[0] == 2
        assert (tmp_path / "step_000001.bin").read_bytes() == old


def test_a_file_of_the_wrong_length_never_gets_the_name(tmp_path):
    class Lying(Files):
        def write(self, fd, data):
            super().write(fd, data[:-1])
            return data.nbytes

    with pytest.raises(OSError, match="expected 68"):
        single.write(tmp_path / "s.bin", 1, *arrays(5), files=Lying())
    assert not list(tmp_path.iterdir())


def test_a_disk_that_takes_nothing_is_an_error_not_a_loop(tmp_path):
    class Full(Files):
        def write(self, fd, data):
            return 0

    with pytest.raises(OSError, match="write took 0"):
        single.write(tmp_path / "s.bin", 1, *arrays(5), files=Full())
    assert not list(tmp_path.iterdir())

"""Saving: the bytes, the sum, and what becomes of a file that stands there already."""

import errno
import hashlib
import json
import os
import struct

import numpy as np
import pytest

from andrea_lab.checkpoint.files import Files
from andrea_lab.checkpoint.save import SaveError, save
from andrea_lab.checkpoint.single import INT32_MAX, CheckpointError, file_name, nbytes
from andrea_lab.checkpoint.sums import read_sum, read_sum_file
from andrea_lab.checkpoint.verify import examine, scan
from tests.checkpoint.faults import Watched
from tests.checkpoint.material import TENSORS, N, arrays, bits, contents, names, newest_good, put

BIN, SUM = "step_000007.bin", "step_000007.bin.sum"
ENTRY = {"step": 7, "segment": 1, "loss": 1.5, "source": "kings"}


def test_the_file_is_the_published_bytes_and_the_sum_says_what_they_are(tmp_path):
    triple = arrays(0)
    saved = save(tmp_path, 7, *triple, segment=3, entry=ENTRY, tensors=TENSORS, config="ab" * 32)
    data = struct.pack("<ii", 7, N) + bits(triple)
    assert (tmp_path / BIN).read_bytes() == data and names(tmp_path) == [BIN, SUM]
    assert (saved.file, saved.step, saved.nbytes, saved.outcome) == (tmp_path / BIN, 7, len(data), "new")
    assert saved.sha256 == hashlib.sha256(data).hexdigest()
    found = read_sum(tmp_path / BIN)
    assert (found.file, found.nbytes, found.step, found.n_params) == (BIN, len(data), 7, N)
    assert (found.sha256, found.segment, found.entry, found.config) == (saved.sha256, 3, ENTRY, "ab" * 32)
    assert found.before is None
    assert [part[:3] for part in found.parts] == [
        ("header", 0, 8),
        *(("w wte", 8, 40), ("w layer0.W_Q", 48, 32), ("w ln_f.gamma", 80, 24)),
        *(("m wte", 104, 40), ("m layer0.W_Q", 144, 32), ("m ln_f.gamma", 176, 24)),
        *(("v wte", 200, 40), ("v layer0.W_Q", 240, 32), ("v ln_f.gamma", 272, 24)),
    ]


def test_without_names_each_region_is_one_part(tmp_path):
    save(tmp_path, 7, *arrays(0))
    assert [part[0] for part in read_sum(tmp_path / BIN).parts] == ["header", "w", "m", "v"]


def test_a_save_of_the_same_bytes_writes_nothing(tmp_path):
    put(tmp_path, 7, 0)
    before, stamp = contents(tmp_path), (tmp_path / BIN).stat().st_mtime_ns
    files = Watched({"create", "rename", "write", "remove"})
    saved = put(tmp_path, 7, 0, segment=2, files=files)
    assert saved.outcome == "same" and files.ops == []
    assert contents(tmp_path) == before and (tmp_path / BIN).stat().st_mtime_ns == stamp


@pytest.mark.parametrize("damage", [None, b"", b"{}", b"\xff"])
def test_a_file_without_a_readable_sum_gets_one_when_its_bytes_are_the_same(tmp_path, damage):
    put(tmp_path, 7, 0)
    (tmp_path / SUM).unlink()
    if damage is not None:
        (tmp_path / SUM).write_bytes(damage)
    assert examine(tmp_path / BIN).verdict == "unverified"
    inode = (tmp_path / BIN).stat().st_ino
    assert put(tmp_path, 7, 0, segment=2, entry=ENTRY).outcome == "same"
    assert (tmp_path / BIN).stat().st_ino == inode and examine(tmp_path / BIN).verdict == "committed"
    assert read_sum(tmp_path / BIN).entry == ENTRY
    aside = [] if damage is None else ["step_000007.bin.sum.bad-2"]
    assert names(tmp_path) == [BIN, SUM, *aside]
    assert all((tmp_path / name).read_bytes() == damage for name in aside)


def test_other_good_bytes_are_copied_aside_and_the_new_sum_knows_them(tmp_path):
    first = put(tmp_path, 7, 0, entry=ENTRY)
    old = contents(tmp_path)
    second = put(tmp_path, 7, 1, segment=4)
    assert second.outcome == "replaced" and second.sha256 != first.sha256
    assert names(tmp_path) == [BIN, SUM, "step_000007.bin.sum.was-4", "step_000007.bin.was-4"]
    assert (tmp_path / "step_000007.bin.was-4").read_bytes() == old[BIN]
    assert (tmp_path / "step_000007.bin.sum.was-4").read_bytes() == old[SUM]
    found = read_sum(tmp_path / BIN)
    assert (found.sha256, found.before.sha256, found.before.entry) == (second.sha256, first.sha256, ENTRY)
    step, data, loaded = newest_good(tmp_path)
    assert (step, data, loaded.verified) == (7, bits(arrays(1)), True)


def test_a_third_save_keeps_one_before_and_takes_the_next_free_name(tmp_path):
    put(tmp_path, 7, 0)
    put(tmp_path, 7, 1, segment=4)
    second = contents(tmp_path)
    put(tmp_path, 7, 2, segment=4)
    assert (tmp_path / "step_000007.bin.was-4-2").read_bytes() == second[BIN]
    aside = read_sum_file(tmp_path / "step_000007.bin.sum.was-4-2")
    found = read_sum(tmp_path / BIN)
    assert aside.before is None and found.before == aside and found.before.before is None


def test_the_old_bytes_are_good_until_the_very_rename(tmp_path):
    put(tmp_path, 7, 0)
    seen = []

    class Peeking(Files):
        def rename(self, old, new):
            if new.name == BIN:
                seen.append(newest_good(tmp_path))
            super().rename(old, new)

    put(tmp_path, 7, 1, files=Peeking())
    [(step, data, loaded)] = seen
    assert (step, data, loaded.verified) == (7, bits(arrays(0)), True)
    assert read_sum(tmp_path / BIN).before == loaded.sum


def test_unverified_other_bytes_are_kept_too(tmp_path):
    put(tmp_path, 7, 0)
    (tmp_path / SUM).unlink()
    old = (tmp_path / BIN).read_bytes()
    assert put(tmp_path, 7, 1, segment=2).outcome == "replaced"
    assert names(tmp_path) == [BIN, SUM, "step_000007.bin.was-2"]
    assert (tmp_path / "step_000007.bin.was-2").read_bytes() == old
    assert read_sum(tmp_path / BIN).before.sha256 == hashlib.sha256(old).hexdigest()


def test_a_file_of_another_size_of_model_is_kept(tmp_path):
    put(tmp_path, 7, 0, n=5)
    old = (tmp_path / BIN).read_bytes()
    assert put(tmp_path, 7, 1).outcome == "replaced"
    assert (tmp_path / "step_000007.bin.was-1").read_bytes() == old
    assert read_sum(tmp_path / BIN).before.n_params == 5 and examine(tmp_path / BIN).verdict == "committed"


def damage_byte(path):
    data = bytearray(path.read_bytes())
    data[50] ^= 4
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def empty(path):
    path.write_bytes(b"")


def link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def folder(path):
    path.unlink()
    path.mkdir()


def pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("damage", [damage_byte, cut, empty, link, folder, pipe])
def test_what_is_damaged_is_renamed_and_kept(tmp_path, damage):
    put(tmp_path, 7, 0)
    damage(tmp_path / BIN)
    kind, old_sum = (tmp_path / BIN).lstat().st_mode, (tmp_path / SUM).read_bytes()
    assert put(tmp_path, 7, 1, segment=2).outcome == "repaired"
    assert (tmp_path / "step_000007.bin.bad-2").lstat().st_mode == kind
    assert (tmp_path / "step_000007.bin.sum.bad-2").read_bytes() == old_sum
    assert newest_good(tmp_path)[1] == bits(arrays(1)) and read_sum(tmp_path / BIN).before is None
    assert scan(tmp_path) == [tmp_path / BIN]


def test_a_header_of_another_step_is_damage(tmp_path):
    put(tmp_path, 8, 0)
    (tmp_path / file_name(8)).rename(tmp_path / BIN)
    (tmp_path / f"{file_name(8)}.sum").unlink()
    assert put(tmp_path, 7, 1).outcome == "repaired"
    assert names(tmp_path) == [BIN, "step_000007.bin.bad-1", SUM]


def test_a_sum_that_lies_about_without_its_file_is_replaced(tmp_path):
    put(tmp_path, 7, 0)
    (tmp_path / BIN).unlink()
    assert put(tmp_path, 7, 1).outcome == "new"
    (tmp_path / BIN).unlink()
    (tmp_path / SUM).unlink()
    (tmp_path / SUM).mkdir()
    assert put(tmp_path, 7, 2, segment=5).outcome == "new"
    assert names(tmp_path) == [BIN, SUM, "step_000007.bin.sum.bad-5"] and (tmp_path / SUM).is_file()


BAD = [
    (0, 3, np.nan, r"w wte\[3\]: found nan, expected a finite number;"),
    (0, 12, np.inf, r"w layer0.W_Q\[2\]: found inf, expected a finite number;"),
    (1, 23, -np.inf, r"m ln_f.gamma\[5\]: found -inf"),
    (2, 0, np.nan, r"v wte\[0\]: found nan, expected a finite number of 0 or more;"),
    (2, 17, -1e-30, r"v layer0.W_Q\[7\]: found -1.0+\d*e-30, expected a finite number of 0 or more;"),
]


@pytest.mark.parametrize(("region", "at", "value", "message"), BAD)
@pytest.mark.parametrize("standing", [False, True])
def test_numbers_that_may_not_be_kept_go_to_a_name_that_never_counts(tmp_path, region, at, value, message, standing):
    if standing:
        put(tmp_path, 7, 0)
    old, triple = contents(tmp_path), arrays(0)
    triple[region][at] = value
    for name in ("step_000007.bin.nonfinite-2", "step_000007.bin.nonfinite-2-2"):
        with pytest.raises(CheckpointError, match=message) as caught:
            save(tmp_path, 7, *triple, tensors=TENSORS, segment=2)
        assert caught.value.verdict == "non-finite" and str(caught.value).endswith(f"the bytes are kept in {name}")
        old[name] = struct.pack("<ii", 7, N) + bits(triple)
        assert contents(tmp_path) == old
    assert scan(tmp_path) == ([tmp_path / BIN] if standing else [])


def test_large_and_odd_but_finite_numbers_are_kept(tmp_path):
    w, m, v = arrays(0)
    top = np.finfo(np.float32).max
    w[:], m[0], v[:4] = top, -top, [top, 0.0, -0.0, np.float32(1e-45)]
    save(tmp_path, 7, w, m, v)
    assert newest_good(tmp_path)[1] == bits((w, m, v))


def test_what_does_not_fit_the_format_is_refused_before_a_file_is_opened(tmp_path):
    w, m, v = arrays(0)
    files = Watched()
    swapped = w.astype(">f4")
    for bad in ((w.astype(np.float64), m, v), (w, m[:3], v), (w, m, arrays(1, 2 * N)[2][::2]), (swapped, m, v)):
        with pytest.raises(CheckpointError, match="expected contiguous little-endian float32"):
            save(tmp_path, 1, *bad, files=files)
    with pytest.raises(CheckpointError, match="n_params: found 0, expected 1 to 2147483647"):
        save(tmp_path, 1, w[:0], m[:0], v[:0], files=files)
    for step in (-1, INT32_MAX + 1):
        with pytest.raises(CheckpointError, match=f"step: found {step}, expected 0 to 2147483647"):
            save(tmp_path, step, w, m, v, files=files)
    huge = np.lib.stride_tricks.as_strided(w, (2**31,), (0,))
    with pytest.raises(CheckpointError, match="n_params: found 2147483648, expected 1 to 2147483647"):
        save(tmp_path, 1, huge, huge, huge, files=files)
    assert files.ops == [] and names(tmp_path) == []


WRONG = [
    ({"segment": 0}, "segment: found 0, expected 1 or more"),
    ({"segment": True}, "segment: found True, expected 1 or more"),
    ({"entry": [1]}, r"entry: found \[1\], expected an object or null"),
    ({"entry": {"loss": float("nan")}}, "entry: found what JSON does not have"),
    ({"entry": {"loss": np.float32(1)}}, "entry: found what JSON does not have"),
    ({"config": "abc"}, "config: found 'abc', expected 64 hex digits or null"),
    ({"tensors": [("a", 0, 10)]}, "tensors: found 10 elements in all, expected 24"),
    ({"tensors": [("a", 0, 10), ("b", 11, 13)]}, "tensor b: found offset 11 and size 13, expected offset 10"),
    ({"tensors": [("a", 0, 10), ("a", 10, 14)]}, "parts: found 'w a', expected each name once"),
]


@pytest.mark.parametrize(("more", "message"), WRONG)
def test_a_wrong_fact_is_named_before_a_file_is_opened(tmp_path, more, message):
    files = Watched()
    with pytest.raises(CheckpointError, match=message):
        save(tmp_path, 7, *arrays(0), files=files, **more)
    assert files.ops == []


def test_between_is_called_before_each_eight_mebibytes_and_may_end_the_save(tmp_path):
    n, looks = 3 * 2**20, []
    triple = [np.zeros(n, np.float32)] * 3
    save(tmp_path, 1, *triple, between=lambda: looks.append(1))
    assert len(looks) == 1 + 3 * 2  # the header, then 12 MiB three times
    old = contents(tmp_path)

    def abort():
        looks.append(1)
        if len(looks) == 4:
            raise KeyboardInterrupt

    looks.clear()
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 2, *triple, between=abort)
    assert contents(tmp_path) == old


def test_too_little_room_is_found_out_before_a_byte_is_written(tmp_path):
    class Full(Watched):
        def free(self, path):
            return 1000

    files = Full()
    with pytest.raises(SaveError, match=r"step_000007.bin: not saved: found 1000 bytes free, expected \d+") as caught:
        put(tmp_path, 7, 0, files=files)
    assert caught.value.errno == errno.ENOSPC and not caught.value.committed
    assert files.ops == [] and "\n" not in str(caught.value)


def test_the_order_is_file_then_sum_then_the_rename_that_counts(tmp_path):
    class Noting(Watched):
        def act(self, number, name, do, *args):
            if number:
                order.append(args[-1].name if name == "rename" else name)
            return do(*args)

    order = []
    put(tmp_path, 7, 0, files=Noting({"rename", "sync", "sync_folder"}))
    assert order == ["sync", "sync", SUM, "sync_folder", BIN, "sync_folder"]


def test_an_empty_or_foreign_entry_is_carried_as_it_is(tmp_path):
    entry = {"text": 'é"\n\u2028', "loss": None, "mark": "nan", "deep": {"a": [1, 2.5, {}]}, "big": 2**70}
    put(tmp_path, 7, 0, entry=entry)
    assert read_sum(tmp_path / BIN).entry == entry
    assert json.loads((tmp_path / SUM).read_text())["entry"] == entry


def test_sizes_are_whole_numbers_of_any_length():
    assert nbytes(12_790_272) == 153_483_272 and nbytes(np.int32(200_000_000)) == 2_400_000_008

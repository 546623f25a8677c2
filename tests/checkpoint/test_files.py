"""The seam: replacing a file as a whole, opening without harm, sweeping what the dead left and nothing else."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from andrea_lab.checkpoint.files import (
    REAL,
    Files,
    commit,
    discard,
    make_folders,
    read_all,
    replace_with,
    stage,
    sweep,
    write_all,
)
from tests.checkpoint.faults import Crash, Crashing, Faulty, Watched
from tests.checkpoint.material import names, temps

OLD, NEW = b"old", b"the new content"


def replace(path, data=NEW, files=REAL, size=None):
    replace_with(path, lambda write: write(memoryview(data)), files=files, size=size)


@pytest.mark.parametrize("short", [None, 1, 4])
def test_a_replaced_file_has_all_of_the_new_content(tmp_path, short):
    replace(tmp_path / "a", OLD)
    replace(tmp_path / "a", files=Faulty(short=short), size=len(NEW))
    assert (tmp_path / "a").read_bytes() == NEW and names(tmp_path) == ["a"]


@pytest.mark.parametrize("persistent", [False, True])
def test_every_operation_may_fail_and_the_old_file_stands(tmp_path, persistent):
    honest = Watched()
    replace(tmp_path / "x", OLD, honest, len(OLD))
    assert honest.ops == ["create", "write", "sync", "size", "close", "rename", "sync_folder"]
    for number in range(1, len(honest.ops) + 1):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        replace(folder / "a", OLD)
        with pytest.raises(OSError, match="planted"):
            replace(folder / "a", NEW, Faulty(number, persistent=persistent), len(NEW))
        after = NEW if number == len(honest.ops) else OLD
        assert (folder / "a").read_bytes() == after, number
        sweep(folder)
        assert names(folder) == ["a"], number


@pytest.mark.parametrize("when", ["before", "halfway", "after"])
def test_a_process_may_die_at_every_operation_and_the_old_or_the_new_file_stands(tmp_path, when):
    for number in range(1, 7):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        replace(folder / "a", OLD)
        with pytest.raises(Crash):
            replace(folder / "a", NEW, Crashing(number, when))
        assert (folder / "a").read_bytes() in (OLD, NEW)
        sweep(folder)
        assert names(folder) == ["a"]


def test_a_sync_is_tried_once(tmp_path):
    files = Faulty(1, only={"sync"})
    with pytest.raises(OSError, match="planted"):
        replace(tmp_path / "a", files=files)
    assert files.ops == ["sync"] and names(tmp_path) == []


def test_a_wrong_size_is_no_success(tmp_path):
    with pytest.raises(OSError, match="has 15 bytes, expected 16"):
        replace(tmp_path / "a", size=16)
    assert names(tmp_path) == []


def test_a_write_that_takes_nothing_ends(tmp_path):
    class Stuck(Files):
        def write(self, fd, data):
            return 0

    with pytest.raises(OSError, match="write took 0 of 15 bytes"):
        replace(tmp_path / "a", files=Stuck())


def test_a_link_under_the_name_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "precious").write_bytes(OLD)
    (tmp_path / "a").symlink_to("precious")
    replace(tmp_path / "a")
    assert (tmp_path / "precious").read_bytes() == OLD and not (tmp_path / "a").is_symlink()


def test_a_taken_temporary_name_is_passed_over(tmp_path):
    """A process of an earlier boot may have had this process's number."""
    temp = stage(tmp_path / "a", lambda temp: None)
    number = int(temp.name.split("-")[-1].split(".")[0])
    discard(temp)
    taken = [tmp_path / f".a.{os.getpid()}-{number + k}.tmp" for k in (1, 2)]
    taken[0].write_bytes(b"stale")
    taken[1].symlink_to("nowhere")
    replace(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == NEW and taken[0].read_bytes() == b"stale"
    assert sorted(sweep(tmp_path)) == sorted(path.name for path in taken)


def test_threads_do_not_share_a_temporary_name(tmp_path):
    errors = []

    def write(k):
        try:
            for _ in range(30):
                replace(tmp_path / "a", bytes([k]) * 1000)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    data = (tmp_path / "a").read_bytes()
    assert errors == [] and len(data) == 1000 and len(set(data)) == 1 and names(tmp_path) == ["a"]


def dead_pid():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(60)
    return child.pid


def test_sweep_takes_what_the_dead_left_and_nothing_else(tmp_path):
    (tmp_path / "precious").write_bytes(OLD)
    dead = dead_pid()
    gone = [f".a.{dead}-0.tmp", f".step_000007.bin.{os.getpid()}-99999.tmp", ".b.99999999999999999999-3.tmp"]
    stay = [f".a.{os.getppid()}-0.tmp", ".a.tmp", f"a.{dead}-0.tmp", f".a.{dead}.tmp", f".a.{dead}-0.tmp2", "precious"]
    for name in gone + stay[:-1]:
        (tmp_path / name).write_bytes(b"x")
    link = tmp_path / f".link.{dead}-1.tmp"
    link.symlink_to("precious")
    (tmp_path / f".folder.{dead}-1.tmp").mkdir()
    at_work = stage(tmp_path / "c", lambda temp: temp.write(memoryview(NEW)))
    assert sorted(sweep(tmp_path)) == sorted([*gone, link.name])
    assert names(tmp_path) == sorted([*stay, f".folder.{dead}-1.tmp", at_work.name])
    assert (tmp_path / "precious").read_bytes() == OLD
    commit(at_work, tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == NEW and sweep(tmp_path) == []


def test_sweep_knows_what_is_at_work_under_any_spelling_of_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    temp = stage(Path("c"), lambda temp: None)
    assert sweep(tmp_path) == sweep(Path(".")) == sweep(tmp_path / "x" / "..") == []
    discard(temp)
    assert temps(tmp_path) == []


def test_what_cannot_be_swept_stays_and_is_not_called_gone(tmp_path):
    name = f".a.{dead_pid()}-0.tmp"
    (tmp_path / name).write_bytes(b"x")
    assert sweep(tmp_path, Faulty(1, errno.EPERM, only={"remove"})) == [] and names(tmp_path) == [name]
    with pytest.raises(FileNotFoundError):
        sweep(tmp_path / "none")


def odd_things(folder):
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "file").write_bytes(OLD)
    (folder / "link").symlink_to("file")
    return [
        (folder / "pipe", "a pipe"),
        (folder / "folder", "a folder"),
        (folder / "link", "a symbolic link"),
        (Path("/dev/zero"), "a device"),
    ]


def test_only_regular_files_are_opened_and_a_pipe_does_not_hold_it_up(tmp_path):
    for path, kind in odd_things(tmp_path):
        with pytest.raises(OSError) as caught:
            REAL.open(path)
        assert (caught.value.errno, caught.value.strerror) == (errno.EINVAL, kind)
    with REAL.open(tmp_path / "file") as file:
        data = bytearray(5)
        assert read_all(REAL, file, memoryview(data)) == 3 and data == b"old\0\0"


def test_what_becomes_a_pipe_between_two_looks_is_refused_too(tmp_path, monkeypatch):
    odd_things(tmp_path)
    regular = os.lstat(tmp_path / "file")
    monkeypatch.setattr(os, "lstat", lambda path: regular)
    with pytest.raises(OSError, match="a pipe"):
        REAL.open(tmp_path / "pipe")
    with pytest.raises(OSError) as caught:
        REAL.open(tmp_path / "link")
    assert caught.value.errno == errno.ELOOP


def test_appending_adds_to_the_end_and_follows_no_link(tmp_path):
    for text in (b"one\n", b"two\n"):
        fd = REAL.append(tmp_path / "log")
        write_all(REAL, fd, memoryview(text))
        REAL.datasync(fd)
        assert REAL.size(fd) == (tmp_path / "log").stat().st_size
        REAL.close(fd)
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"
    (tmp_path / "link").symlink_to("log")
    with pytest.raises(OSError):
        REAL.append(tmp_path / "link")
    with pytest.raises(FileExistsError):
        REAL.create(tmp_path / "link")


def test_folders_and_room(tmp_path):
    REAL.make_folder(tmp_path / "a")
    with pytest.raises(FileExistsError):
        REAL.make_folder(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        REAL.make_folder(tmp_path / "b" / "c")
    REAL.sync_folder(tmp_path)
    REAL.remove_folder(tmp_path / "a")
    assert names(tmp_path) == [] and REAL.free(tmp_path) > 0


def test_folders_are_made_with_those_above_them(tmp_path):
    files = Watched({"make_folder"})
    for made in (3, 3):
        make_folders(tmp_path / "a" / "b" / "c", files)
        assert len(files.ops) == made and (tmp_path / "a" / "b" / "c").is_dir()
    (tmp_path / "a" / "file").touch()
    with pytest.raises(FileExistsError):
        make_folders(tmp_path / "a" / "file")


def test_a_file_is_cut(tmp_path):
    fd = REAL.append(tmp_path / "a")
    write_all(REAL, fd, memoryview(NEW))
    REAL.truncate(fd, 3)
    write_all(REAL, fd, memoryview(b"er"))
    REAL.close(fd)
    assert (tmp_path / "a").read_bytes() == b"theer"

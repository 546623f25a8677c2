"""Real processes: killed at any instant, read beside, out of room, out of rights, on a disk that fails."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from andrea_lab.checkpoint.files import sweep
from andrea_lab.checkpoint.load import load
from andrea_lab.checkpoint.verify import survey
from tests.checkpoint import writer
from tests.checkpoint.material import arrays, bits, blank, newest_good, put, temps
from tests.reachable import reachable_folder

PROGRAM = [sys.executable, writer.__file__]
PATIENCE = 120
N, STEP = writer.N, writer.STEP


def works(*command):
    """[the command], or nothing where this machine has no such tool or does not let it work."""
    if shutil.which(command[0]) is None:
        return []
    done = subprocess.run([*command, "true"], capture_output=True, timeout=PATIENCE)
    return [command] if done.returncode == 0 else []


# Without these tools their tests have no cases, which pytest reports.
NAMESPACE = works("unshare", "-Urm")
STRACE = works("strace", "-f", "-o", "/dev/null")


class Killer:
    """The process that makes children which save, and kills them."""

    def __init__(self, kind, folder):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([*PROGRAM, kind, folder], **pipes)

    def kill_after(self, seconds):
        self.process.stdin.write(f"kill {seconds}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


@pytest.mark.parametrize("instants", [25, pytest.param(200, marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", ["steps", "same"])
def test_a_process_killed_at_any_instant_leaves_the_old_or_the_new(tmp_path, kind, instants):
    killer, last, swept = Killer(kind, tmp_path), -1, 0
    try:
        while last < 1:  # how long a save takes here today
            last = killer.kill_after(0.5)
        one = 0.5 / (last + 1)
        for instant in range(instants):
            announced = max(last, killer.kill_after(3 * one * instant / instants))
            step, data, loaded = newest_good(tmp_path, N)
            last = loaded.sum.entry["seed"]
            assert announced <= last <= announced + 1, "what was announced is there, or the one after it"
            assert loaded.verified and data == bits(arrays(last, N)) and step == (last if kind == "steps" else STEP)
            assert {v.verdict for v in survey(tmp_path)} == {"committed"}
            swept += len(sweep(tmp_path))
            assert temps(tmp_path) == []
    finally:
        killer.close()
    assert swept > 0


def test_a_reader_beside_a_writer_sees_old_or_new(tmp_path):
    program = f"import sys, os; sys.path[0] = {str(writer.ROOT)!r}; from pathlib import Path\n"
    program += "from tests.checkpoint import writer; writer.save_without_end(Path(sys.argv[1]), 'same', 1)"
    child = subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE)
    seeds, into = [], blank(N)
    try:
        while child.stdout.readline() != b"0\n":
            assert child.poll() is None
        while len(seeds) < 60 or len(set(seeds)) < 10:
            loaded = load(tmp_path / f"step_00000{STEP}.bin", *into)
            assert loaded.verified
            seeds.append(loaded.sum.entry["seed"])
            assert bits(into) == bits(arrays(seeds[-1], N))
            assert child.poll() is None
    finally:
        child.kill()
        child.communicate(timeout=PATIENCE)
    assert seeds == sorted(seeds)


def test_saving_and_loading_load_little():
    done = subprocess.run([*PROGRAM, "modules"], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert set(done.stdout.split()) <= {"numpy", "xxhash"}


def save_once(*how, wrapper=(), folder, seed=1, code=0):
    command = [*wrapper, *PROGRAM, "once", str(folder), str(seed), *how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def check_refused(result, number, words=""):
    """Nothing came of the save; the older file is there, alone and well."""
    assert result["errno"] == number and not result["committed"] and words in result["message"]
    assert (result["newest"], result["verified"]) == (STEP - 1, True)
    assert result["names"] == [f"step_00000{STEP - 1}.bin", f"step_00000{STEP - 1}.bin.sum"]


def mounted(unshare, folder, size):
    """A command that runs another with a disk of this size mounted on a folder, seen by nobody else."""
    return [*unshare, "sh", "-c", f'mount -t tmpfs -o size={size} none "{folder}" && exec "$@"', "sh"]


@pytest.mark.parametrize("unshare", NAMESPACE)
@pytest.mark.parametrize("how", [["first"], ["first", "blind"]])
def test_a_real_disk_that_is_full(tmp_path, unshare, how):
    result = save_once(*how, wrapper=mounted(unshare, tmp_path, "2300k"), folder=tmp_path)
    check_refused(result, errno.ENOSPC, "bytes free, expected" if how == ["first"] else "No space left on device")


@pytest.mark.parametrize("unshare", NAMESPACE)
def test_a_real_disk_that_is_read_only(tmp_path, unshare):
    result = save_once("first", "readonly", wrapper=mounted(unshare, tmp_path, "9m"), folder=tmp_path)
    check_refused(result, errno.EROFS, "not saved: Read-only file system")


def test_a_limit_on_the_size_of_files(tmp_path):
    check_refused(save_once("first", "limited", folder=tmp_path), errno.EFBIG, "not saved: File too large")


def test_a_folder_without_rights():
    folder = Path(reachable_folder())
    try:
        put(folder, STEP - 1, 0, N)
        folder.chmod(0o555)
        check_refused(save_once("unprivileged", folder=folder), errno.EACCES, "not saved: Permission denied")
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


CALLS = [
    ("fsync:error=EIO:when=1", errno.EIO, False),
    ("fsync:error=EIO:when=2", errno.EIO, False),
    ("fsync:error=EIO:when=4", errno.EIO, True),
    ("write:error=ENOSPC:when=2", errno.ENOSPC, False),
    ("write:error=EDQUOT:when=3", errno.EDQUOT, False),
    ("rename:error=EIO:when=1", errno.EIO, False),
    ("rename:error=EIO:when=2", errno.EIO, False),
]


@pytest.mark.parametrize("strace", STRACE)
@pytest.mark.parametrize(("call", "number", "committed"), CALLS)
def test_a_system_call_that_fails(tmp_path, strace, call, number, committed):
    put(tmp_path, STEP - 1, 0, N)
    result = save_once(wrapper=[*strace, "-e", f"inject={call}"], folder=tmp_path)
    if committed:
        assert result["committed"] and "durability unknown" in result["message"] and result["newest"] == STEP
    else:
        check_refused(result, number, os.strerror(number))


@pytest.mark.parametrize("strace", STRACE)
@pytest.mark.parametrize("call", ["rename", *(pytest.param(c, marks=pytest.mark.full) for c in ("fsync", "write"))])
def test_killed_at_every_call_of_a_kind(tmp_path, strace, call):
    """The old bytes or the new ones load, whichever call was the last."""
    for number in range(1, 99):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        put(folder, STEP, 2, N)
        wrapper = [*strace, "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}"]
        done = subprocess.run([*wrapper, *PROGRAM, "once", folder, "1"], capture_output=True, timeout=PATIENCE)
        step, data, loaded = newest_good(folder, N)
        assert loaded.verified and data in (bits(arrays(2, N)), bits(arrays(1, N)))
        sweep(folder)
        assert temps(folder) == []
        if done.returncode == 0:
            break
    assert data == bits(arrays(1, N)) and number > 4

"""A file system on which a rename that replaces is two acts, a removal and a new name, with a moment in between."""

import os

import pytest

from andrea_lab.checkpoint.files import sweep
from tests.checkpoint.faults import Crash, Crashing
from tests.checkpoint.material import arrays, bits, newest_good, put

BIN = "step_000007.bin"


class TwoActs(Crashing):
    def rename(self, old, new):
        if os.path.lexists(new):
            self.remove(new)
        super().rename(old, new)


def killed_everywhere(tmp_path, save, standing):
    """(folder, what loads) of every kill of a save over what `standing` puts there; the last is of no kill."""
    at, done = 0, False
    while not done:
        at += 1
        folder = tmp_path / str(at)
        folder.mkdir()
        standing(folder)
        try:
            save(folder, TwoActs(at))
            done = True
        except Crash:
            sweep(folder)
        yield folder, newest_good(folder)
    assert at > 8


def test_a_save_of_a_new_step_replaces_nothing_so_the_old_one_or_the_new_loads(tmp_path):
    def save(folder, files):
        put(folder, 8, 1, files=files)

    for _, (step, data, loaded) in killed_everywhere(tmp_path, save, lambda folder: put(folder, 7, 0)):
        assert loaded.verified and data == bits(arrays(step - 7))
    assert step == 8


@pytest.mark.parametrize("good", [True, False])
def test_the_same_step_again_loses_no_good_bytes(tmp_path, good):
    """Between the two acts the step has no file, so the one before it loads; its bytes stand aside under `.was-`."""

    def standing(folder):
        put(folder, 6, 6)
        put(folder, 7, 0)
        if not good:
            (folder / BIN).write_bytes(b"torn")

    seen = set()
    for folder, found in killed_everywhere(tmp_path, lambda folder, files: put(folder, 7, 1, files=files), standing):
        step, data, _ = found
        seen.add(data)
        assert data in {6: [bits(arrays(6))], 7: [bits(arrays(0)), bits(arrays(1))]}[step]
        kept = [path.read_bytes()[8:] for path in folder.glob("step_000007.bin*") if ".sum" not in path.name]
        assert not good or bits(arrays(0)) in kept
    assert data == bits(arrays(1)) and bits(arrays(6)) in seen

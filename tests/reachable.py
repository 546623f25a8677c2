"""A folder that another user gets to, for tests of what a user without rights sees when they run as one who has all."""

import os
import tempfile
from pathlib import Path


def reachable_folder() -> str:
    """A new folder with no folder above it that others may not enter; TMPDIR may lie in one."""
    for base in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        above = [Path(base).resolve(), *Path(base).resolve().parents]
        if os.access(base, os.W_OK) and all(folder.stat().st_mode & 0o001 for folder in above):
            made = tempfile.mkdtemp(dir=base)
            Path(made).chmod(0o755)
            return made
    raise AssertionError("found no folder for temporary files that others may enter, expected /tmp to be one")

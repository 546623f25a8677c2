"""What the tests of weight files are made of: small arrays, their names, and looks at a folder."""

import numpy as np

from andrea_lab.checkpoint.files import TEMP
from andrea_lab.checkpoint.load import load
from andrea_lab.checkpoint.save import save
from andrea_lab.checkpoint.single import CheckpointError
from andrea_lab.checkpoint.verify import candidates

N = 24
TENSORS = [("wte", 0, 10), ("layer0.W_Q", 10, 8), ("ln_f.gamma", 18, 6)]


def arrays(seed, n=N):
    """w, m and v, (n,) float32: what a training run would have."""
    rng = np.random.default_rng(seed)
    w, m = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    return w, m, rng.random(n, dtype=np.float32)


def blank(n=N):
    return tuple(np.full(n, np.nan, np.float32) for _ in range(3))


def bits(triple):
    return b"".join(a.tobytes() for a in triple)


def put(folder, step, seed, n=N, **more):
    """Save what `arrays(seed)` makes."""
    return save(folder, step, *arrays(seed, n), tensors=TENSORS if n == N else None, **more)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def temps(folder):
    return [name for name in names(folder) if TEMP.fullmatch(name)]


def contents(folder):
    """{name: bytes} of every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def newest_good(folder, n=N):
    """(step, bytes of w, m and v, Loaded) of the newest file that loads, as a resume would find it; None for none."""
    for path in candidates(folder):
        into = blank(n)
        try:
            loaded = load(path, *into)
        except CheckpointError:
            continue
        return loaded.step, bits(into), loaded
    return None

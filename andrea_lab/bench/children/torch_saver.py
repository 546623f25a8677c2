"""The measured process of PyTorch's save: three flat float32 tensors through torch.save, synced to the disk.

Run by path with whatever interpreter has torch; nothing of ours is imported but serve.py beside it.
"""

import os
import sys
import time

from serve import serve

try:
    import torch
except ImportError as error:
    serve({"hello": lambda missing=error.name: {"missing": missing}})
    sys.exit()


class Peer:
    """The requests of this process; `load` comes before `save`."""

    def hello(self):
        """What this process is."""
        return {"torch": torch.__version__}

    def load(self, n):
        """Draw the state of n parameters: as many bytes as ours."""
        self.state = {"step": 0} | {name: torch.randn(n) for name in ("w", "m", "v")}

    def save(self, file):
        """Save to a temporary name, sync, rename, sync the folder. Returns ms and bytes; the file is then removed."""
        start = time.perf_counter()
        with open(file + ".tmp", "xb") as out:
            torch.save(self.state, out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(file + ".tmp", file)
        folder = os.open(os.path.dirname(file), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        ms = 1e3 * (time.perf_counter() - start)
        nbytes = os.path.getsize(file)
        os.remove(file)
        return {"ms": ms, "nbytes": nbytes}


if __name__ == "__main__":
    peer = Peer()
    serve({"hello": peer.hello, "load": peer.load, "save": peer.save})

"""A peer for tests: speaks the protocol of torch_saver.py and writes a plain file.

The argument "missing" makes it play an interpreter without torch.
"""

import os
import sys
import time

from andrea_lab.bench.children.serve import serve

data = bytearray()


def load(n):
    data.extend(bytes(12 * n))


def save(file):
    start = time.perf_counter()
    with open(file, "xb") as out:
        out.write(data)
    os.remove(file)
    return {"ms": 1e3 * (time.perf_counter() - start), "nbytes": len(data)}


hello = {"missing": "torch"} if "missing" in sys.argv else {"torch": "none, a plain file"}
serve({"hello": lambda: hello, "load": load, "save": save})

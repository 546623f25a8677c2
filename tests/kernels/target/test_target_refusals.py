"""What the CPU target refuses: file and line exactly, and the words that say what to write instead."""

from pathlib import Path

import numpy as np
import pytest

from kernels.target import KernelRefused

# Each kernel is `def k(x, n)`; the line marked with <- is the one the message must name.
CASES = {
    "barrier under a condition": (
        """
    i = cuda.grid(1)
    if i < n:
        x[i] += float32(1)
        cuda.syncthreads()  # <-
""",
        "under a condition that differs between the threads of a block",
    ),
    "early return before a barrier": (
        """
    i = cuda.grid(1)
    if i >= n:
        return
    cuda.syncthreads()  # <-
    x[i] = float32(1)
""",
        "after an early return: threads that left never arrive; write `if i < n:`",
    ),
    "barrier in a loop of uneven length": (
        """
    for j in range(cuda.threadIdx.x):
        x[j] = float32(1)
        cuda.syncthreads()  # <-
""",
        "inside a loop whose trip count differs between the threads",
    ),
    "barrier in a while that differs": (
        """
    j = cuda.threadIdx.x
    while j > 0:
        j -= 1
        cuda.syncthreads()  # <-
""",
        "inside a while loop whose condition differs",
    ),
    "break around a barrier": (
        """
    for j in range(4):
        if cuda.threadIdx.x > j:
            break
        cuda.syncthreads()  # <-
""",
        "that some threads leave by break or continue before others do",
    ),
    "dynamic shared memory": (
        "\n    s = cuda.shared.array(0, float32)  # <-\n    x[0] = s[0]\n",
        "dynamic shared memory",
    ),
    "too much shared memory": (
        "\n    s = cuda.shared.array(20000, float32)  # <-\n    x[0] = s[0]\n",
        "at most 49,152 bytes a block, this kernel asks for 80,000",
    ),
    "shared array of a size that is no constant": (
        "\n    s = cuda.shared.array(n, float32)  # <-\n    x[0] = s[0]\n",
        "must be a constant, not n",
    ),
    "two shared arrays on a line": (
        "\n    s = cuda.shared.array(4, float32); t = cuda.shared.array(4, float32)  # <-\n    x[0] = s[0] + t[0]\n",
        "two shared arrays on one line",
    ),
    "an array's name used again": (
        "\n    s = cuda.shared.array(4, float32)\n    s = x[0]  # <-\n    x[1] = s\n",
        "'s' is an array",
    ),
    "vote": ("\n    x[0] = cuda.ballot_sync(0xFFFFFFFF, True)  # <-\n", "cuda.ballot_sync is not supported"),
    "misspelt intrinsic": ("\n    cuda.syncthread()  # <-\n", "cuda.syncthread is not supported"),
    "fence": ("\n    cuda.threadfence()  # <-\n", "cuda.threadfence is not supported"),
    "computed negative index": ("\n    x[-n] = float32(1)  # <-\n", "negative index is not supported; add the length"),
    "return in a loop": (
        "\n    for j in range(4):\n        if x[j] > x[0]:\n            return  # <-\n        x[j] = x[0]\n",
        "return inside a loop is not supported",
    ),
    "return deep in conditions": (
        "\n    if n > 1:\n        if n > 2:\n            return  # <-\n        x[0] = x[1]\n    x[1] = x[2]\n",
        "only at the end of a top-level if",
    ),
    "a returned value": ("\n    return x[0]  # <-\n", "returns nothing"),
    "loop over an array": ("\n    for v in x:  # <-\n        x[0] = v\n", "only `for name in range(...)` loops"),
    "loop with else": (
        "\n    for j in range(3):  # <-\n        x[j] = x[0]\n    else:\n        x[0] = x[1]\n",
        "else",
    ),
    "try": (
        "\n    try:  # <-\n        x[0] = float32(1)\n    finally:\n        x[1] = float32(1)\n",
        "try is not supported",
    ),
    "raise": ("\n    raise ValueError  # <-\n", "raise is not supported"),
    "assert": ("\n    assert n > 0  # <-\n", "assert is not supported"),
    "comprehension": ("\n    x[0] = max([x[j] for j in range(3)])  # <-\n", "a list comprehension is not supported"),
    "print": ("\n    print(n)  # <-\n", "print is not supported"),
    "string": ("\n    s = 'a'  # <-\n    x[0] = float32(len(s))\n", "a constant of type str"),
    "keyword argument": ("\n    x[0] = max(x[0], default=x[1])  # <-\n", "keyword arguments"),
    "plain function": (
        "\n    x[0] = helper(x[0])  # <-\n",
        "helper is a plain Python function; decorate it with @device",
    ),
    "NumPy function": ("\n    x[0] = np.exp(x[0])  # <-\n", "np.exp(...) is not supported by the cpu target"),
    "array from outside": ("\n    x[0] = TABLE[1]  # <-\n", "'TABLE' is a ndarray from outside the kernel; pass it"),
    "list from outside": ("\n    x[0] = WORDS[1]  # <-\n", "'WORDS' is a list from outside the kernel"),
    "undefined name": ("\n    x[0] = x[0] * undefined_name  # <-\n", "name 'undefined_name' is not defined"),
    "reserved name": ("\n    _a = n\n    x[_a] = float32(1)\n", "starts with an underscore"),
    "types that do not fit": ("\n    y = x + n  # <-\n    x[0] = y[0]\n", "kernel k: "),
    "wrong number of indices": ("\n    y = n\n    x[y, 2] = float32(1)  # <-\n", "kernel k: "),
    "atomic in a condition": (
        "\n    while cuda.atomic.cas(x, 0, 0, 1) != 0:  # <-\n        pass\n",
        "cuda.atomic.cas may stand only in a plain assignment or alone, not in a condition",
    ),
    "shuffle in a condition": (
        "\n    if n > 1 and cuda.shfl_down_sync(0xFFFFFFFF, n, 1) > 2:  # <-\n        x[0] = float32(1)\n",
        "cuda.shfl_down_sync may stand only in a plain assignment",
    ),
    "view across a barrier": (
        "\n    v = x[cuda.threadIdx.x:]\n    cuda.syncthreads()\n    v[0] = float32(1)\n",
        "index the array itself",
    ),
}
AROUND = """
TABLE = np.arange(4, dtype=np.float32)
WORDS = [1.0, 2.0]


def helper(v):
    return v


@kernel
def k(x, n):"""


@pytest.mark.parametrize("case", CASES)
def test_refused_with_file_and_line(write, case):
    body, words = CASES[case]
    module = write(AROUND + body)
    text = Path(module.__file__).read_text().splitlines()
    marked = [n for n, line in enumerate(text, 1) if line.endswith("# <-")]
    with pytest.raises(KernelRefused) as caught:
        module.k[1, 32](np.zeros(64, np.float32), 64)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert ": kernel k: " in message
    assert message.startswith(f"{module.__file__}:{marked[0]}: " if marked else f"{module.__file__}:"), message


def test_a_device_function_names_its_own_line(write):
    module = write("""
@device
def f(v):
    return v + float32(cuda.threadIdx.x)


@kernel
def k(x, n):
    x[0] = f(x[0])
""")
    with pytest.raises(KernelRefused, match=r"device function f: cuda.threadIdx.x belongs in the kernel") as caught:
        module.k[1, 32](np.zeros(4, np.float32), 4)
    line = 1 + Path(module.__file__).read_text().splitlines().index("    return v + float32(cuda.threadIdx.x)")
    assert str(caught.value).startswith(f"{module.__file__}:{line}: ")


def test_block_arrays_that_do_not_fit_on_the_stack(write):
    module = write("""
@kernel
def k(x, n):
    a = cuda.local.array(2000, float32)
    a[0] = x[0]
    x[0] = a[0]
""")
    with pytest.raises(KernelRefused, match="more than 2,097,152; use smaller arrays or a smaller block"):
        module.k[1, 1024](np.zeros(4, np.float32), 4)


def test_source_that_cannot_be_found():
    from numba import cuda

    from kernels.target import kernel

    namespace = {"cuda": cuda}
    exec("def k(x):\n    x[0] = 1\n", namespace)
    lost = kernel(namespace["k"])
    with pytest.raises(KernelRefused, match="kernel k: its source text is not to be found"):
        lost[1, 1](np.zeros(1))


def test_a_store_into_a_read_only_array(write):
    module = write("\n@kernel\ndef k(x, n):\n    x[0] = float32(1)\n")
    x = np.zeros(4, np.float32)
    x.flags.writeable = False
    with pytest.raises(KernelRefused, match="kernel k: "):
        module.k[1, 1](x, 4)

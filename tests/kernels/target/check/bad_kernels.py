"""What learners write and no card takes. Each entry: the kernel, its arguments, a word its explanation must hold."""

import math
import time

import numpy as np
from numba import cuda, float32

NUMBERS = [1, 2, 3]
TABLE = {"a": 1}
BAD: list = []


def bad(*words, args=lambda: (np.ones(64, np.float32),)):
    def decorate(fn):
        BAD.append((fn, args, words))
        return fn

    return decorate


@bad("np")
def calls_numpy(x):
    i = cuda.grid(1)
    x[i] = np.exp(x[i])


@bad("np")
def makes_a_numpy_array(x):
    a = np.zeros(4)
    x[0] = a[0]


@bad("NUMBERS", "list")
def reads_a_global_list(x):
    x[0] = NUMBERS[0]


@bad("TABLE", "dict")
def reads_a_global_dict(x):
    x[0] = TABLE["a"]


@bad("list")
def makes_a_list(x):
    a = [1, 2]
    x[0] = a[0]


@bad("")
def appends_to_a_global_list(x):
    NUMBERS.append(4)


@bad("comprehension")
def comprehends(x):
    x[0] = sum([k for k in range(3)])


@bad("lenght")
def uses_a_name_that_is_not_there(x):
    x[0] = lenght * 2  # noqa: F821


@bad("syncthread")
def misspells_the_barrier(x):
    cuda.syncthread()
    x[0] = 1


@bad("")
def misspells_an_attribute(x):
    x[0] = x.length


@bad("raise")
def raises(x):
    raise ValueError("no")


@bad("try")
def tries(x):
    try:
        x[0] = 1
    except Exception:
        x[0] = 2


@bad("with")
def uses_with(x):
    with open("f"):
        x[0] = 1


@bad("import")
def imports(x):
    import math as m

    x[0] = m.pi


@bad("")
def returns_a_value(x):
    x[0] = 1
    return x[0]


@bad("string")
def stores_a_string(x):
    x[0] = "a"


@bad("")
def formats_a_string(x):
    y = f"{x[0]}"
    x[0] = len(y)


@bad("index")
def indexes_with_a_float(x):
    x[cuda.threadIdx.x / 2] = 1


@bad("dimension")
def indexes_with_two_numbers(x):
    x[0, 0] = 1


@bad("")
def indexes_a_number(x):
    i = cuda.grid(1)
    x[0] = i[0]


@bad("constant", args=lambda: (np.ones(64, np.float32), 3))
def shapes_shared_memory_by_an_argument(x, n):
    s = cuda.shared.array(n, float32)
    x[0] = s[0]


@bad("threadIdx")
def forgets_the_x_of_threadidx(x):
    i = cuda.threadIdx
    x[i] = 1


@bad("recurs")
def recurs(x):
    recurs(x)


@cuda.jit(device=True)
def again(v):
    return again(v) + 1


@bad("again", "itself")
def calls_a_recursive_function(x):
    x[0] = again(x[0])


@bad("global")
def declares_a_global(x):
    global NUMBERS
    NUMBERS = 3
    x[0] = NUMBERS


@bad("lambda")
def makes_a_lambda(x):
    f = lambda v: v + 1  # noqa: E731
    x[0] = f(x[0])


@bad("")
def calls_a_library(x):
    x[0] = time.time()


@bad("")
def opens_a_file(x):
    open("/tmp/never", "w").write("x" * 10)  # noqa: SIM115
    x[0] = 1


@bad("")
def evaluates_a_string(x):
    x[0] = eval("1 + 1")


@bad("")
def asks_the_user(x):
    x[0] = float(input())


@bad("")
def calls_a_method_of_an_array(x):
    x[0] = x.sum()


@bad("parameters")
def takes_any_arguments(x, *rest):
    x[0] = 1


@bad("")
def yields(x):
    yield x[0]


@bad("")
def deletes(x):
    y = x[0]
    del y
    x[0] = 1


@bad("")
def has_a_function_inside(x):
    def inner(v):
        return v + 1

    x[0] = inner(x[0])


@bad("x", args=lambda: ())
def gets_no_argument(x):
    x[0] = 1


@bad("2", args=lambda: (np.ones(4, np.float32), 1))
def gets_one_argument_too_many(x):
    x[0] = 1


@bad("x", "list", args=lambda: ([1.0, 2.0],))
def gets_a_list(x):
    x[0] = 1


@bad("x", args=lambda: ("text",))
def gets_a_string(x):
    x[0] = 1


@bad("x", args=lambda: (None,))
def gets_none(x):
    x[0] = 1


@bad("x", args=lambda: (np.array(["a", "b"]),))
def gets_an_array_of_strings(x):
    x[0] = 1


@bad("x", args=lambda: (np.array([object()]),))
def gets_an_array_of_objects(x):
    x[0] = 1


def read_only():
    x = np.ones(4, np.float32)
    x.flags.writeable = False
    return (x,)


@bad("read-only", args=read_only)
def writes_into_a_read_only_array(x):
    x[0] = 1


@bad("")
def uses_math_that_is_not_there(x):
    x[0] = math.comb(5, 2)


@bad("")
def allocates_a_terabyte(x):
    a = cuda.local.array(1 << 38, float32)
    x[0] = a[0]


async def is_a_coroutine(x):
    x[0] = 1


BAD.append((is_a_coroutine, lambda: (np.ones(4, np.float32),), ("",)))

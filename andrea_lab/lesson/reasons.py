"""The reasons `lesson.check` gives, and what it says of each: the likely cause, and what to do about it."""

PASSED = "passed"
NOT_ATTEMPTED = "not attempted"
UNFINISHED = "unfinished"

SAYS = {
    UNFINISHED: "the `...` marks what is still to be written.",
    # the kernel cannot be read or run
    "syntax error": "Python cannot read this line; look at the end of the line before it too.",
    "signature": "the kernel takes the arguments of the exercise, in their order.",
    "not a kernel": "write it with def, under @kernel, in a cell or a file.",
    "unsupported": "a kernel holds arithmetic, indexing, if, while, for ... in range(...), math and numba.cuda.",
    "outside value": "pass an array as an argument; a kernel sees only numbers from outside, as constants.",
    "unknown name": "a misspelt name, or one whose cell was not run.",
    "error": "the kernel, or the check of it, stopped here.",
    "endless loop": "the loop never ends, or runs far longer than these sizes need: what changes its condition?",
    "launch limits": "a block has at most 1,024 threads and 48 KB of shared memory.",
    "memory": "the compiled kernel wanted more memory than a check may have.",
    "disk": "the compiled kernel wanted to write a larger file than a check may write.",
    "time": "the compiled kernel did not end in the time of a check.",
    "crash": "the compiled kernel ended its process: an access far outside an array does that.",
    "refused": "right on the check target, but the CPU target cannot compile it.",
    # faults the check target saw
    "missing barrier": "a barrier is missing: cuda.syncthreads() between a thread's write and another's read or write.",
    "barrier not for all": "every thread of the block must come to the same barrier: move it out of the condition.",
    "missing atomic": "several threads add to one element: give the sum one owner, or use cuda.atomic.add.",
    "two writers": "several threads write one element: give every element one owner.",
    "same value": "several threads write the same value to one element: let one of them do it.",
    "no guard": "the last block has threads beyond the end: put the access under `if i < n:`.",
    "loop too far": "the loop runs past the end of the array: look at its bound.",
    "negative index": "the index falls below 0; on a GPU that is memory before the array.",
    "wrong axis": "two axes are exchanged.",
    "out of bounds": "the index leaves the array.",
    "unset memory": "shared and local memory starts with whatever was there: write before you read.",
    "input changed": "an array that is only read was written to.",
    "too much traffic": "the tile in shared memory is there to be read instead of the array.",
    "float64": "write constants as float32(...): an untyped one makes everything it meets float64.",
    # the values
    "never written": "no thread writes these elements.",
    "forgot +=": "what was in the array before is lost: gradients are added with +=.",
    "added, not written": "the array's old content is part of the result: write with =, or start from zero.",
    "added twice": "the sum is added more than once: several threads or blocks do the work of one.",
    "only the first items": "the loop does not go on: a thread takes element t, then t + blockDim, up to the end.",
    "some sizes only": "right for some sizes: is a size written into the kernel, or the last tile half filled?",
    "sign": "the sign is turned round.",
    "wrong constant": "everything is off by one factor: a constant, a scale or a mean over the wrong count.",
    "missing term": "everything is off by one addend: a term is missing or one too many.",
    "wrong row factor": "every row is off by a factor of its own: a wrong scale, norm or sum of that row.",
    "wrong row term": "every row is off by an addend of its own: a term of that row is missing.",
    "wrong column factor": "every column is off by a factor of its own: a weight of that column is left out.",
    "wrong column term": "every column is off by an addend of its own: a weight of that column is left out.",
    "missing maximum": "exp overflows, or vanishes for a whole row: subtract the row's true maximum first.",
    "not a number": "NaN or infinity where numbers are expected: a division by zero, a root or logarithm below zero.",
    "lost digits": "close, but not close enough: a constant, eps, or digits lost by subtracting large numbers.",
    "wrong values": "compare the formula with the kernel, line by line.",
    "compiled differs": "right on the check target, wrong when compiled: the result depends on the order of threads.",
}

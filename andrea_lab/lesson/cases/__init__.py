"""What a kernel is tried on: for every shipped kernel a list of small cases, the last of them strong.

    for case in case_list("k_layernorm_fwd"):
        arrays = case.fresh()
        my_kernel[case.grid, case.block](*arrays)
        print(case.label, case.wrong(arrays))

A case is small enough for an interpreter and hard to pass by luck: sizes of 1, odd sizes, sizes that are no multiple
of the block, more items than threads, repeated indices, logits that overflow unless the maximum is taken out, results
that start as NaN, gradients that start as noise. Expected values come from kernels.reference, in float64.
"""

from andrea_lab.lesson.cases import (  # each of them enters its kernels
    attention,
    embed,
    flash,
    heads,
    layernorm,
    loss,
    mlp,
    optimiser,
    products,
    steps,
    xent,
)
from andrea_lab.lesson.cases.case import Case, Wrong, case_list, case_names

MODULES = (attention, embed, flash, heads, layernorm, loss, mlp, optimiser, products, steps, xent)

__all__ = ["MODULES", "Case", "Wrong", "case_list", "case_names"]

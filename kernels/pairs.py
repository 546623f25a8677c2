"""The registry of pairs: the 8 named ones, the 21 fine ones, which folds into which, and every shipped kernel.

PAIRS    name -> Pair: embed, layernorm, attn_qkv, attn, attn_out, mlp, residual, loss. The engine runs a model with
         their .forward and .backward; .named_forward and .named_backward launch the kernel of that name once.
FINE     name -> Pair: the same transformer in 21 steps. This decomposition is ours: the names of eight kernel pairs
         are given, the number 21 is given, the list is not.
KERNELS  name -> kernel with its legal blocks; see `kernels.registry`.
"""

from kernels import adamw, attention, clip, embed, layernorm, loss, matmul, mlp, reduce, residual
from kernels.registry import KERNELS, Pair

__all__ = ["FINE", "KERNELS", "PAIRS", "Pair", "print_map"]

MODULES = (embed, layernorm, attention, mlp, residual, loss)
OTHERS = (matmul, clip, adamw, reduce)  # kernels without a pair

PAIRS: dict[str, Pair] = {pair.name: pair for module in MODULES for pair in module.PAIRS}
_FINE = {pair.name: pair for module in MODULES for pair in module.FINE}
FINE: dict[str, Pair] = {name: _FINE[name] for pair in PAIRS.values() for name in pair.folds}


def print_map() -> None:
    """Print which fine pairs fold into which named pair, numbered in the order of the forward pass's table."""
    head = ("pair", "kernels", "#", "fine pairs", "saved for backward")
    rows, first = [head], 1
    for pair in PAIRS.values():
        last = first + len(pair.folds) - 1
        numbers = str(first) if first == last else f"{first}-{last}"
        kernels = f"{pair.fwd.name} / {pair.bwd.name}"
        rows.append((pair.name, kernels, numbers, ", ".join(pair.folds), ", ".join(pair.saved) or "nothing"))
        first = last + 1
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for i, row in enumerate(rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if i == 0:
            print("  ".join("-" * width for width in widths))
    print(f"{len(PAIRS)} named pairs, {first - 1} fine pairs")

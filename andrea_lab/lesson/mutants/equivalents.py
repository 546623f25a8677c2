"""Mutants that do the same as the kernel: nothing can tell them apart, and why.

Each is proved by a test: the same bits on 200 random inputs, and the same traffic in every case. There are none in the
classes NEVER: a barrier, guard, atomic or += without which a kernel does the same has no place in a shipped kernel.
"""

from __future__ import annotations

NEVER = ("barrier", "guard", "atomic", "accumulate")
MOST = 0.03  # of the bank

PADDING = "A padding's other factor is 0, and what it stands in is cut away or adds 0."
BEYOND = "A row beyond the sequence has no gradient: whatever it makes is multiplied by 0 and added."
DEALT = "The tiles of a weight are dealt to its blocks in another order; each has one, and no block meets another."
FIRST = "The first key brings exp(-1e30 - m) = 0, and what was there before is multiplied by it."
FAST = "A tile that ends with the array takes the path that tests every element: the same elements by the same reads."

# (subject, class, what, how many of the same stand before it) -> why nothing changes
EQUIVALENTS: dict[tuple[str, str, str, int], str] = {
    ("k_matmul_tiled", "const", "As[ty, tx] = float32(0.0): 0.0 as 1", 0): PADDING,
    ("k_matmul_tiled", "const", "Bs[ty, tx] = float32(0.0): 0.0 as 1", 0): PADDING,
    ("k_matmul_blocked", "offbyone", "a_row + EDGE <= a_rows as a_row + EDGE < a_rows", 0): FAST,
    ("k_matmul_blocked", "offbyone", "a_col + EDGE <= a_cols as a_col + EDGE < a_cols", 0): FAST,
    ("k_matmul_blocked", "offbyone", "b_row + EDGE <= b_rows as b_row + EDGE < b_rows", 0): FAST,
    ("k_matmul_blocked", "offbyone", "b_col + EDGE <= b_cols as b_col + EDGE < b_cols", 0): FAST,
    ("k_softmax_fwd", "const", "inv = float32(0.0): 0.0 as 1", 0): (
        "It stays only where every exponential of the row is 0, and 0 times anything finite is 0."
    ),
    ("k_attn_fwd", "const", "total = float32(0.0): 0.0 as 1", 0): FIRST,
    ("k_flash_fwd", "const", "qi[d] = float32(0.0): 0.0 as 1", 0): PADDING,
    ("k_flash_fwd", "const", "total[d] = float32(0.0): 0.0 as 1", 0): FIRST,
    ("k_flash_fwd", "const", "Ks[j, d] = float32(0.0): 0.0 as 1", 0): PADDING,
    ("k_flash_fwd", "const", "Vs[j, d] = float32(0.0): 0.0 as 1", 0): PADDING,
    ("k_flash_fwd", "const", "norm = float32(0.0): 0.0 as 1", 0): FIRST,
    (
        "k_flash_fwd",
        "offbyone",
        "range(TILE) as range(1, TILE)",
        3,
    ): "No query of a tile lies before its first key.",
    ("k_flash_fwd", "offbyone", "k0 + TILE <= T as k0 + TILE < T", 0): FAST,
    ("k_flash_bwd", "const", "Ks[j, d] = float32(0.0): 0.0 as 1", 0): PADDING,
    ("k_flash_bwd", "const", "Vs[j, d] = float32(0.0): 0.0 as 1", 0): PADDING,
    ("k_flash_bwd", "const", "gi[d] = float32(0.0): 0.0 as 1", 0): BEYOND,
    ("k_flash_bwd", "const", "L = float32(0.0): 0.0 as 1", 0): BEYOND,
    ("k_flash_bwd", "offbyone", "k0 + TILE <= T as k0 + TILE < T", 0): FAST,
    ("k_attn_qkv_bwd", "term", "cuda.blockIdx.x - first as cuda.blockIdx.x", 1): DEALT,
    ("k_attn_qkv_bwd", "term", "cuda.blockIdx.x - first as cuda.blockIdx.x + first", 1): DEALT,
    ("clip_scale", "offbyone", "norm > max_norm as norm >= max_norm", 0): "Where they are equal, max_norm / norm is 1.",
}


def reason(mutant) -> str | None:
    """Why a mutant does the same as the kernel, None for one that is not listed."""
    return EQUIVALENTS.get(mutant.key)

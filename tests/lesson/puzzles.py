"""Wrong solutions that other exercise sets are known to accept: a barrier missing at the end of a loop, shared memory
left over from the tile before, another algorithm, an answer for one size, the index within the block for the one within
the grid."""

from learners import learner
from numba import cuda, float32

TILE = 16
PUZZLES = []


@learner("k_matmul_tiled", "missing barrier", PUZZLES)
def no_barrier_at_the_end_of_the_loop(A, B, C, M, N, K):
    As = cuda.shared.array((TILE, TILE), float32)
    Bs = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    col, row = cuda.grid(2)
    acc = float32(0.0)
    for t in range((K + TILE - 1) // TILE):
        k0 = t * TILE
        As[ty, tx] = A[row, k0 + tx] if row < M and k0 + tx < K else float32(0.0)
        Bs[ty, tx] = B[k0 + ty, col] if k0 + ty < K and col < N else float32(0.0)
        cuda.syncthreads()
        for k in range(TILE):
            acc += As[ty, k] * Bs[k, tx]
    if row < M and col < N:
        C[row, col] = acc


@learner("k_matmul_tiled", "unset memory", PUZZLES)
def tiles_keep_what_was_there(A, B, C, M, N, K):
    As = cuda.shared.array((TILE, TILE), float32)
    Bs = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    col, row = cuda.grid(2)
    acc = float32(0.0)
    for t in range((K + TILE - 1) // TILE):
        k0 = t * TILE
        if row < M and k0 + tx < K:
            As[ty, tx] = A[row, k0 + tx]
        if k0 + ty < K and col < N:
            Bs[ty, tx] = B[k0 + ty, col]
        cuda.syncthreads()
        for k in range(TILE):
            acc += As[ty, k] * Bs[k, tx]
        cuda.syncthreads()
    if row < M and col < N:
        C[row, col] = acc


@learner("k_matmul_tiled", "some sizes only", PUZZLES)
def tiles_are_stale_at_the_edge(A, B, C, M, N, K):
    As = cuda.shared.array((TILE, TILE), float32)
    Bs = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    col, row = cuda.grid(2)
    acc = float32(0.0)
    As[ty, tx] = float32(0.0)
    Bs[ty, tx] = float32(0.0)
    cuda.syncthreads()
    for t in range((K + TILE - 1) // TILE):
        k0 = t * TILE
        if row < M and k0 + tx < K:
            As[ty, tx] = A[row, k0 + tx]
        if k0 + ty < K and col < N:
            Bs[ty, tx] = B[k0 + ty, col]
        cuda.syncthreads()
        for k in range(TILE):
            acc += As[ty, k] * Bs[k, tx]
        cuda.syncthreads()
    if row < M and col < N:
        C[row, col] = acc


@learner("k_matmul_tiled", "too much traffic", PUZZLES)
def walks_over_one_tile_more(A, B, C, M, N, K):
    As = cuda.shared.array((TILE, TILE), float32)
    Bs = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    col, row = cuda.grid(2)
    acc = float32(0.0)
    for t in range(K // TILE + 1):
        k0 = t * TILE
        As[ty, tx] = A[row, k0 + tx] if row < M and k0 + tx < K else float32(0.0)
        Bs[ty, tx] = B[k0 + ty, col] if k0 + ty < K and col < N else float32(0.0)
        cuda.syncthreads()
        for k in range(TILE):
            acc += As[ty, k] * Bs[k, tx]
        cuda.syncthreads()
    if row < M and col < N:
        C[row, col] = acc


@learner("k_sum", "wrong values", PUZZLES)
def adds_by_another_algorithm(inp, out, n):
    s = cuda.shared.array(256, float32)
    tx = cuda.threadIdx.x
    s[tx] = inp[tx] if tx < n else float32(0.0)
    cuda.syncthreads()
    if tx == 0:
        acc = float32(0.0)
        for i in range(256):
            acc += s[i]
        out[0] = acc


@learner("k_matmul_naive", "some sizes only", PUZZLES)
def knows_one_size(A, B, C, M, N, K):
    col, row = cuda.grid(2)
    if row < M and col < N:
        acc = float32(0.0)
        for k in range(min(K, 4)):
            acc += A[row, k] * B[k, col]
        C[row, col] = acc


@learner("k_residual_add", "only the first items", PUZZLES)
def takes_the_local_index(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = a[cuda.threadIdx.x] + b[cuda.threadIdx.x]


@learner("k_zero_grads", "never written", PUZZLES)
def does_nothing_at_all(g, n):
    if cuda.grid(1) < 0:
        g[0] = float32(0.0)

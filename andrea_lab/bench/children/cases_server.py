"""The measured process of `bench kernels`: proves and times one case at a time."""

import numba

from andrea_lab.bench import cases, timing
from andrea_lab.bench.children.serve import serve
from kernels import blas
from kernels.target import set_threads, use

TOLERANCE = 1e-5  # relative error of a side against the float64 reference, per array


class Cases:
    """The requests of this process; `setup` comes first."""

    def setup(self, threads: int, quick: bool) -> dict:
        """Put every side on `threads` threads. Returns the names of the cases."""
        use("cpu")
        set_threads(threads)
        numba.set_num_threads(threads)
        self.threads, self.shape = threads, cases.SMALL if quick else cases.FULL
        return {"cases": list(cases.CASES), "layer": numba.config.THREADING_LAYER}

    def measure(self, name: str, rounds: int, pause: float) -> dict:
        """Run every side once, compare with the reference, then time them by turns, ms."""
        case = cases.CASES[name](self.shape)
        outs = {side: case.outs() for side in ("ours", "numpy", "hand")}
        work = {side: getattr(case, side)(outs[side]) for side in outs}
        errors = {}
        for side, run in work.items():
            run()
            errors[side] = timing.relative_error(outs[side], case.expected)
            if not errors[side] <= TOLERANCE:
                raise ArithmeticError(
                    f"{name}: {side} is off by {errors[side]:.1e} of the reference, expected at most {TOLERANCE:.0e}"
                )
        return {"name": name, "errors": errors, "ms": timing.interleave(work, rounds, pause, self._prepare)}

    def _prepare(self, side: str) -> None:
        """NumPy's BLAS gets all threads in NumPy's turns; in the others it sleeps."""
        found = blas.numpy_blas()
        if found:
            found.threads.set_num_threads(self.threads if side == "numpy" else 1)


if __name__ == "__main__":
    made = Cases()
    serve({"setup": made.setup, "measure": made.measure})

"""Benchmarks: timers, peers, tables. `kernels`, `step` and `nano` each have run(), render(result), markdown(result)."""

"""Benchmarks: timers, peers and tables. `kernels`, `step` and `nano` have run(...), render(result), markdown(result)."""

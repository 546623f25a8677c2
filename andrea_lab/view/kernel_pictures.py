"""Three pictures of a kernel, drawn from what the check target recorded of it.

    trace = kernels.trace(my_kernel)[grid, block](*args)
    thread_map(trace, "inp", inp.shape)               # which thread touches which element
    timeline(trace)                                   # what the lanes of a warp do, and where they wait
    traffic_bars({"first": report.traffic, ...})      # what it reads and writes, and what that costs

Each returns a Picture: PNG bytes of a fixed size, the same on every run, and a sentence with the counts.
"""

from andrea_lab.view.threadmap import thread_map
from andrea_lab.view.timeline import timeline
from andrea_lab.view.trafficbars import traffic_bars

__all__ = ["thread_map", "timeline", "traffic_bars"]

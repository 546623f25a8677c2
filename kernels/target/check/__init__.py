"""The check target: the same kernel source, run thread by thread in step, with every access written down.

report = kernels.check(k)[grid, block](*args)     # races, bounds, barriers, unset reads, limits, traffic
trace = kernels.trace(k, block=0, warp=0)[grid, block](*args)
"""

from .api import bind, check, examine, trace
from .faults import Fault
from .orders import Orders
from .report import Report
from .trace import Event, Trace
from .traffic import ArrayTraffic, Traffic

__all__ = ["ArrayTraffic", "Event", "Fault", "Orders", "Report", "Trace", "Traffic"]
__all__ += ["bind", "check", "examine", "trace"]

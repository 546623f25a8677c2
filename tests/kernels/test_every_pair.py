"""No pair without its two kernels, and no pair that the judges do not see."""

import re
from pathlib import Path

import attention_cases
import cases
from judges import Op

from kernels import attention_steps
from kernels.pairs import FINE, PAIRS
from kernels.registry import Registered

HERE = Path(__file__).parent


def ops_under_test() -> list[Op]:
    """The operations that some test file hands to pair_tests()."""
    known = {name: op for m in (cases, attention_cases) for name, op in vars(m).items() if isinstance(op, Op)}
    calls = [re.findall(r"pair_tests\(([A-Z_0-9, ]+)\)", path.read_text()) for path in HERE.glob("test_*.py")]
    return [known[name.strip()] for call in calls for names in call for name in names.split(",")]


def test_every_pair_is_judged_forward_and_backward_on_every_path():
    judged = {build for op in ops_under_test() for path in op.paths.values() for build in path}
    # The mask is compared exactly, in test_attention.py.
    judged |= {attention_steps.mask_forward, attention_steps.mask_backward}
    for pair in [*PAIRS.values(), *FINE.values()]:
        for way in ("forward", "backward", "named_forward", "named_backward"):
            assert getattr(pair, way) in judged, f"{pair.name}: no test of {way}"


def test_every_operation_costs_two_kernels():
    """Of the 21 fine pairs some share kernels, the three layer norms for one; no forward kernel is a backward one."""
    for pairs in (PAIRS, FINE):
        forward, backward = ({getattr(p, d).name: getattr(p, d) for p in pairs.values()} for d in ("fwd", "bwd"))
        assert len(forward) == len(backward) and not forward.keys() & backward.keys()
        assert all(isinstance(k, Registered) for k in (forward | backward).values())
    assert len({k.name for p in PAIRS.values() for k in (p.fwd, p.bwd)}) == 16

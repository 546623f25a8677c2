"""The residual connection: the generic judges."""

from cases import RESIDUAL
from suite import pair_tests

globals().update(pair_tests(RESIDUAL))

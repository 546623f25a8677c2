"""The MLP and its GELU: the generic judges."""

from cases import GELU, MLP
from suite import pair_tests

globals().update(pair_tests(GELU, MLP))

"""Layer normalisation: the generic judges."""

from cases import LAYERNORM
from suite import pair_tests

globals().update(pair_tests(LAYERNORM))

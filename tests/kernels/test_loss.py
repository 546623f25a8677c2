"""The loss, its head and its cross-entropy: the generic judges."""

from cases import HEAD, LOSS, XENT
from suite import pair_tests

globals().update(pair_tests(HEAD, LOSS, XENT))

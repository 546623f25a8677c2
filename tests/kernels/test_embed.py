"""Embedding: the generic judges."""

from cases import EMBED, POSITION, TOKEN
from suite import pair_tests

globals().update(pair_tests(EMBED, TOKEN, POSITION))

"""A peer for tests that plays an interpreter without torch."""

from andrea_lab.bench.children.serve import serve

serve({"hello": lambda: {"missing": "torch"}})

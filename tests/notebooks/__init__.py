"""Notebooks as tests."""

import sys

# jsonschema takes this package, when it is there, for a kind of address no notebook holds; importing it takes seconds.
sys.modules.setdefault("rfc3987_syntax", None)

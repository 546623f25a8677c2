#!/bin/sh
# Finds a Python that the project supports and lets it build .venv (tools/env.py).
set -u
check='import sys; print("%d.%d.%d" % sys.version_info[:3]); sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))'
seen=''
for candidate in ${PYTHON:-python3.12 python3.11 python3 python}; do
    if version=$("$candidate" -c "$check" 2>/dev/null); then
        PYTHON="${PYTHON:-}" exec "$candidate" tools/env.py "$@"
    fi
    [ -z "$version" ] || seen="${seen:+$seen, }$candidate is $version"
done
echo "andrea-lab needs Python 3.11 or 3.12; ${seen:-${PYTHON:-no Python} was not found}." \
    "Install one of them, or name it: make lab PYTHON=/path/to/python3.12" >&2
exit 2

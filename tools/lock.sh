#!/bin/sh
# Writes both locks from pyproject.toml: one file for every platform and for Python 3.11 and 3.12, hashes, no addresses.
# requirements.lock is what the workbook needs; requirements-test.lock is the same pins plus the test tools.
# Pins already there are kept; make lock UPGRADE=1 takes the newest that the ranges allow.
set -eu
flags="--group build --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet"
export UV_CUSTOM_COMPILE_COMMAND="make lock"
.venv/bin/uv pip compile pyproject.toml $flags ${UPGRADE:+--upgrade} -o requirements.lock
.venv/bin/uv pip compile pyproject.toml $flags ${UPGRADE:+--upgrade} --extra test -c requirements.lock -o requirements-test.lock

#!/bin/sh
# Opens the first notebook in JupyterLab; the arguments go to JupyterLab (for example --no-browser --port=8890).
set -eu
root=''
[ "$(id -u)" != 0 ] || root=--allow-root
export JUPYTER_PREFER_ENV_PATH=1
exec .venv/bin/python -m jupyterlab --ServerApp.root_dir="$PWD" $root "$@" notebooks/00_start_here.ipynb

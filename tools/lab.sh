#!/bin/sh
# Opens the first notebook in JupyterLab; the arguments go to JupyterLab (for example --no-browser --port=8890).
set -eu
python=.venv/bin/python
[ -x "$python" ] || python=python # conda: the environment that is active
root=''
[ "$(id -u)" != 0 ] || root=--allow-root
export JUPYTER_PREFER_ENV_PATH=1
exec "$python" -m jupyterlab --ServerApp.root_dir="$PWD" \
    --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb $root "$@"

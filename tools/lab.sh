#!/bin/sh
# Opens JupyterLab on the folder it is called in, at the first notebook; the arguments go to JupyterLab (for example
# --no-browser --port=8890). Settings that differ from JupyterLab's own: tools/jupyter/labconfig.
set -eu
home=$(cd "$(dirname "$0")/.." && pwd)
python=$home/.venv/bin/python
[ -x "$python" ] || python=python # conda: the environment that is active
root=''
[ "$(id -u)" != 0 ] || root=--allow-root
export JUPYTER_PREFER_ENV_PATH=1
export JUPYTER_PATH="$home/tools/jupyter${JUPYTER_PATH:+:$JUPYTER_PATH}"
export JUPYTER_CONFIG_PATH="$home/tools/jupyter${JUPYTER_CONFIG_PATH:+:$JUPYTER_CONFIG_PATH}"
exec "$python" -m jupyterlab --ServerApp.root_dir="$PWD" \
    --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb $root "$@"

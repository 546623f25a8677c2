"""What a repair has to look at: what the engine loads, what must be installed, and that there is no framework in it."""

import re
import subprocess
import sys
import tomllib

from tests.imports import ROOT, imports, modules

FRAMEWORKS = {"torch", "tensorflow", "jax", "flax", "keras", "mxnet", "paddlepaddle", "tinygrad", "transformers"}
MOST_DIRECT = 14  # two of them only draw in a browser
# What training itself runs on; numba brings llvmlite, pydantic the rest.
TRAINING = {"numba", "numba_cuda", "numpy", "threadpoolctl", "pydantic", "xxhash", "psutil"}


def direct():
    """The names of the packages the project asks for."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return {re.match(r"[\w-]+", text).group() for text in listed}


def imported(*folders):
    """Top-level packages of others that the modules under these folders import, lazily or not."""
    found = {
        imp.module.split(".")[0]
        for folder in folders
        for path, _, package in modules(folder)
        for imp in imports(path.read_text(encoding="utf-8"), package)
    }
    return found - set(sys.stdlib_module_names) - {"andrea_lab", "kernels"}


def test_no_framework_is_locked_or_asked_for():
    locked = {re.split("[=; ]", line)[0] for line in (ROOT / "requirements.lock").read_text().splitlines() if line}
    assert "numpy" in locked and not locked & FRAMEWORKS
    assert not direct() & FRAMEWORKS and len(direct()) <= MOST_DIRECT


def test_training_is_two_packages_of_ours_on_seven_of_others():
    parts = [f"andrea_lab/{name}" for name in ("model", "engine", "checkpoint", "run", "proxy", "text")]
    assert imported("kernels", *parts) <= TRAINING | {"llvmlite", "nvmath"}
    assert direct() >= {name.replace("_", "-") for name in TRAINING}


def test_the_training_loop_loads_no_framework():
    code = "import sys; import andrea_lab.proxy.loop; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"andrea_lab", "kernels", "numpy", "numba"} <= loaded and not loaded & FRAMEWORKS
    assert not loaded & {"matplotlib", "jupyterlab", "ipywidgets"}, "neither what draws nor what shows"

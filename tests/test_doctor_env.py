"""`andrea doctor` in this very environment: what it reports is true, and it finds what is wrong."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys

import pytest

from tests.imports import ROOT


def doctor(cwd, **changes):
    """The report of `andrea doctor --json` from a process of its own."""
    code = "import sys; from andrea_lab.cli import main; sys.exit(main(['doctor', '--json']))"
    path = os.pathsep.join(filter(None, [changes.pop("first", ""), str(ROOT)]))
    env = {**os.environ, "PYTHONPATH": path, **changes}
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return doctor(tmp_path_factory.mktemp("here"))


def test_a_sound_environment_has_no_problem(report):
    assert report["problems"] == []


def test_versions_are_the_installed_ones(report):
    assert report["versions"]["python"] == platform.python_version()
    for package in ("numba", "numba-cuda", "numpy", "jupyterlab"):
        assert report["versions"][package] == importlib.metadata.version(package)


def test_target_is_the_one_kernels_run_on(report, tmp_path):
    assert report["target"] in ("cpu", "cuda")
    assert doctor(tmp_path, ANDREA_TARGET="cpu")["target"] == "cpu"


def test_the_simulator_is_no_device(tmp_path):
    assert doctor(tmp_path, NUMBA_ENABLE_CUDASIM="1", CUDA_VISIBLE_DEVICES="")["target"] == "cpu"


def test_another_kernels_package_is_reported(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text("")
    problems = doctor(tmp_path, first=str(tmp_path))["problems"]
    assert any(str(tmp_path / "kernels") in problem for problem in problems)


def test_gpu_check_without_a_device_says_so(tmp_path):
    done = subprocess.run(
        [sys.executable, "tools/gpu_check.py"],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no device")

"""Notebooks as tests: a pytest plugin over nbval that cannot pass by accident.

nbval compares what a cell prints with what is stored. This plugin adds what it lets through: a cell that was never run
fails, a cell whose reply is an error fails even when it raised nothing, no mark can excuse a cell, a PNG must exist,
show something and keep its size, and a kernel that dies is reported at once instead of after the cell's time-out.

A cell's test is named after its first tag, else by its position: `notebooks/00_start_here.ipynb::first-loss`.
"""

import base64
import contextlib
import io
import os
import tempfile
import time
from queue import Empty

import nbval.plugin
import pytest
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile, NbCellError
from PIL import Image

from tools.run_notebooks import KERNEL_ENV, NO_START, START_TRIES

POLL_SECONDS = 0.5


class KernelDiedError(Exception):
    """The notebook's process ended while a cell ran."""


class WatchedKernel(RunningKernel):
    """nbval's kernel, asked twice a second whether it is still alive; remembers the status of the last reply."""

    status = None

    def __init__(self, *args, **kwargs):
        for tries_left in reversed(range(START_TRIES)):
            try:
                super().__init__(*args, **kwargs)
                return
            except RuntimeError as error:
                if NO_START not in str(error) or not tries_left:
                    raise

    def execute_cell_input(self, cell_input, allow_stdin=None):
        # Cells are counted, as a front end has them counted: what is printed may name a cell by its number.
        return self.kc.execute(cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)

    def await_reply(self, msg_id, timeout=None):
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                reply = self.get_message(stream="shell", timeout=POLL_SECONDS)
            except Empty:
                if not self.is_alive():
                    raise KernelDiedError("the kernel died while this cell ran") from None
                if deadline is not None and time.monotonic() > deadline:
                    raise
                continue
            if reply["parent_header"].get("msg_id") == msg_id:
                self.status = reply["content"]["status"]
                return


@contextlib.contextmanager
def environment(values):
    """os.environ with some values, for the processes started inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class StrictNotebook(IPyNbFile):
    """One notebook; its cells run in order in one fresh kernel, and no exercise was tried before."""

    def setup(self):
        # A first use of matplotlib on a machine writes its font list, and says so on stderr of whoever comes first.
        import matplotlib.font_manager  # noqa: F401

        self.score_card = tempfile.TemporaryDirectory(prefix="andrea-progress-")
        with environment({**KERNEL_ENV, "ANDREA_PROGRESS": self.score_card.name}):
            super().setup()

    def teardown(self):
        super().teardown()
        self.score_card.cleanup()

    def collect(self):
        for cell in super().collect():
            tags = cell.cell.metadata.get("tags") or [cell.name]
            yield StrictCell.from_parent(
                self, name=tags[0], cell_num=cell.cell_num, cell=cell.cell, options=cell.options
            )


class StrictCell(IPyNbCell):
    """One code cell."""

    def setup(self):
        """nothing: nbval would mark the cells after a time-out as expected to fail"""

    def runtest(self):
        if self.cell.execution_count is None:
            self.raise_cell_error("This cell was never run: its notebook stores no output to compare with")
        if self.options["skip"] or self.options["check_exception"] or not self.options["check"]:
            self.raise_cell_error("This cell carries a mark that would excuse it from the comparison")
        kernel = self.parent.kernel
        if not kernel.is_alive():
            self.raise_cell_error("The kernel was gone before this cell: see the first failure above")
        try:
            super().runtest()
        except KernelDiedError as error:
            kernel.stop()
            raise NbCellError(self.cell_num, str(error), self.cell.source) from None
        if kernel.status != "ok":
            self.raise_cell_error(f"The kernel answered {kernel.status!r} to this cell")

    def compare_outputs(self, test, ref, skip_compare=None):
        same = super().compare_outputs(test, ref, skip_compare)
        if same:
            self.comparison_traceback = picture_problems(pictures(test), pictures(ref))
        return same and not self.comparison_traceback

    def reportinfo(self):
        return self.path, 0, f"{self.path.name}::{self.name}"


def pictures(outputs):
    """The PNG outputs of a cell, as bytes."""
    found = (output.get("data", {}).get("image/png") for output in outputs)
    return [base64.b64decode(data) for data in found if data is not None]


def picture_problems(test, ref):
    """What is wrong with a cell's PNGs against the stored ones, one line each."""
    if len(test) != len(ref):
        return [f"stored pictures: {len(ref)}, drawn: {len(test)}"]
    problems = []
    for number, (drawn, stored) in enumerate(zip(test, ref, strict=True), 1):
        with Image.open(io.BytesIO(drawn)) as picture, Image.open(io.BytesIO(stored)) as before:
            if picture.size != before.size:
                problems.append(f"picture {number}: stored with {before.size} pixels, drawn with {picture.size}")
            if is_blank(picture):
                problems.append(f"picture {number} is blank")
    return problems


def is_blank(picture):
    """True when every pixel has one colour."""
    return all(low == high for low, high in picture.convert("RGB").getextrema())


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    # --nbval would collect every notebook a second time, without what this plugin adds.
    config.option.nbval = config.option.nbval_lax = False
    nbval.plugin.RunningKernel = WatchedKernel


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".ipynb":
        return StrictNotebook.from_parent(parent, path=file_path)
    return None

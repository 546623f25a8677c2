"""An engine in a process of its own, used like one in this process: the same verbs, values and exceptions."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from andrea_lab.checkpoint.wishes import SIGNALS, leave_file
from andrea_lab.engine.carried import from_plain
from andrea_lab.engine.errors import EngineError
from andrea_lab.engine.lines import Lines, from_line, send
from andrea_lab.engine.signals import Aborted, Signals, Stopped
from andrea_lab.model.config import Config
from kernels.target import current
from kernels.target import threads as default_threads

ROOT = Path(__file__).resolve().parents[2]
NAP = 0.05  # seconds between two looks for wishes while the engine works
LAST_WORDS = 2**15  # bytes of the engine's standard error that are kept
ABORTED = 130


class EngineDied(RuntimeError):
    """The engine's process ended without an answer. code: its exit code, minus the signal's number for one killed.

    words: the end of what it said on standard error. saved: the file in which it left its last step, or None.
    """

    def __init__(self, code: int, words: str, saved: str | None = None):
        how = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        how += f", the last step saved in {saved}" if saved else ""
        lines = words.splitlines() or ["none"]
        last = next((line for line in lines if line.startswith("Fatal Python error")), lines[-1])
        super().__init__(f"engine: found its process {how} (its last words: {last}), expected an answer")
        self.code, self.words, self.saved = code, words, saved


class EngineProcess:
    """Starts an engine and waits until it is ready; see Engine for the arguments and for what is raised.

    signals: what was asked of this process; a stop is handed on at once, so that the engine can weigh its grace, an
    abort ends both. start_new_session: what is sent to this process's group, as by Ctrl-C or a notebook's interrupt
    button, does not reach the engine. When this process dies the engine saves and ends. Raises EngineDied as well.
    """

    def __init__(
        self,
        config: Config,
        run_dir: Path | str | None = None,
        *,
        resume: bool = False,
        target: str | None = None,
        threads: int | None = None,
        signals: Signals | None = None,
        start_new_session: bool = True,
    ):
        self.config, self.run_dir = config, None if run_dir is None else Path(run_dir)
        self._signals = Signals() if signals is None else signals
        self.done, self.save_errors = 0, []
        self._want: list[str] = []
        self._asked, self._handed_on = 0, False
        self._gone: dict[str, Any] | None = None  # what it said last, when it left by itself
        self._words = b""
        self.n_params: int | None = None  # until it is ready
        command = [sys.executable, "-X", "faulthandler", "-m", "andrea_lab.engine.process"]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        search = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        options = {"env": os.environ | {"PYTHONPATH": search}, "start_new_session": start_new_session}
        self._process = subprocess.Popen(command, bufsize=0, **pipes, **options)
        self.pid = self._process.pid
        self._lines = Lines(self._process.stdout.fileno())
        self._listener = threading.Thread(target=self._listen, name="engine's words", daemon=True)
        self._listener.start()
        try:
            made = {"config": config.model_dump(), "run_dir": run_dir and str(run_dir), "resume": resume}
            self._write(made | {"target": str(target or current()), "threads": threads or default_threads()})
            ready = self._answer()["ready"]
        except BaseException:
            self._process.terminate()
            self._let_go()
            raise
        self.n_params, self.sources, self.machine = ready["n_params"], ready["sources"], ready["machine"]
        self.loaded: dict[str, Any] | None = ready["loaded"]

    def __enter__(self) -> "EngineProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------ the five verbs

    def step(self, request: dict[str, Any]) -> dict[str, Any]:
        """As Engine.step. `segment` and `policy` of the request are for the entry that it saves if left alone."""
        return self._ask("step", request)

    def save(self, request: dict[str, Any]) -> dict[str, Any]:
        """As Engine.save."""
        try:
            saved = self._ask("save", request)
        except EngineDied:
            if not self._gone or self._gone.get("step") != request.get("step"):
                raise
            saved = {key: self._gone[key] for key in ("file", "sha256")}  # it did so by itself, asked to stop
        self._signals.clear("save")
        return saved

    def sample(self, request: dict[str, Any]) -> dict[str, Any]:
        """As Engine.sample."""
        return self._ask("sample", request)

    def evaluate(self, request: dict[str, Any]) -> dict[str, Any]:
        """As Engine.evaluate."""
        return self._ask("evaluate", request)

    def load(self, path: Path | str) -> int:
        """As Engine.load."""
        self.loaded = self._ask("load", {"path": os.path.abspath(path)})["loaded"]
        return self.done

    def close(self) -> None:
        """End the engine and wait for it, and for its save in the background. Once is enough."""
        if self._process.stdin.closed:
            return
        try:
            if self._process.returncode is None:
                self._ask("close", {})
        except EngineDied:
            pass  # it is gone, which is what was wanted
        finally:
            self._let_go()

    # ------------------------------------------------------------------------------------------------ wishes

    def poll(self) -> list[str]:
        """What was asked of this process, and of the engine when it last answered."""
        wishes = self._signals.poll()
        return [wish for wish in ("save", "stop") if wish in wishes or wish in self._want]

    def signal(self, wish: str) -> None:
        """Ask the engine for "save", "stop" or "abort": by a signal, by a control file where the system has none."""
        number = getattr(signal, SIGNALS[wish], None)
        if os.name != "posix" or number is None:
            self._leave_file(wish)
            return
        if wish == "abort":
            self._interrupt()
        elif self._process.poll() is None:
            self._process.send_signal(number)

    def _interrupt(self) -> None:
        """SIGINT twice or more: two that come while the engine is in one long call count as one."""
        end = monotonic() + 5.0
        while self._process.poll() is None and monotonic() < end:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(4 * NAP)
            except subprocess.TimeoutExpired:
                continue

    def _leave_file(self, wish: str) -> None:
        if self.run_dir is None:
            raise EngineError(f"signal: found no {SIGNALS[wish]} and no run directory, expected one of them")
        leave_file(self.run_dir, wish)

    # ------------------------------------------------------------------------------------------------ the pipe

    def _ask(self, verb: str, request: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        self._write(request | {"do": verb, "id": self._asked})
        while True:
            answer = self._answer()
            if answer.get("id") in (self._asked, None):  # not one that an interrupted call did not wait for
                return answer["answer"]

    def _write(self, request: dict[str, Any]) -> None:
        with suppress(OSError):  # it may have ended; what it said last is still to be read
            send(self._process.stdin.fileno(), request)

    def _answer(self) -> dict[str, Any]:
        """The next answer. Raises the error it carries, EngineDied, Aborted."""
        while (line := self._line()) is not None:
            answer = from_line(line)
            self.done, self._want = answer.get("done", self.done), answer.get("want", self._want)
            self.save_errors = answer.get("save_errors", self.save_errors)
            if "gone" in answer:
                self._gone = answer = answer["gone"] or {}
            if "error" in answer and answer.get("id") in (None, self._asked):
                raise from_plain(answer["error"])
            if answer is not self._gone:
                return answer
        raise self._end()

    def _end(self) -> BaseException:
        """What the end of the process means."""
        code = self._process.wait()
        self._listener.join(1.0)
        if code in (ABORTED, -signal.SIGINT):
            return Aborted("the engine was aborted: nothing was saved, what was saved before is untouched")
        if code == -signal.SIGTERM and self.n_params is None:
            return Stopped("the engine was stopped before the first step: nothing was written")
        saved = self._gone.get("file") if self._gone else None
        return EngineDied(code, self._words.decode(errors="replace").strip(), saved)

    def _line(self) -> bytes | None:
        """The next line; wishes are handed on meanwhile."""
        while True:
            try:
                return self._lines.get(NAP)
            except TimeoutError:
                self._hand_on()

    def _hand_on(self) -> None:
        try:
            wishes = self._signals.poll()
        except Aborted:
            self.signal("abort")
            raise
        if "stop" in wishes and not self._handed_on:
            self._handed_on = True
            self.signal("stop")

    def _listen(self) -> None:
        with suppress(OSError):
            while piece := os.read(self._process.stderr.fileno(), 65536):
                self._words = (self._words + piece)[-LAST_WORDS:]

    def _let_go(self) -> None:
        """Close the pipes, which ends an engine that is still there, and wait for it."""
        self._process.stdin.close()
        self._process.wait()
        self._listener.join(1.0)
        self._process.stdout.close()
        self._process.stderr.close()

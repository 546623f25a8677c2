"""The engine as a process of its own: `python -m andrea_lab.engine.process`, newline-delimited JSON on both ends.

The first line makes the engine: {config, run_dir, resume, target, threads} -> {"ready": {n_params, sources, machine,
loaded}}. Each further line is {"do": verb, ...}, with an `id` if the caller wants it back, and is answered by
{"answer": {...}} or {"error": {type, message, fields}}; beside it stand `done`, `want` and `save_errors`. A step's
request also carries what the proxy adds to its entry: `segment` and `policy`.

The engine outlives its proxy: when the input ends, or a stop comes and nobody asks for anything for three seconds, it
saves the last step with an entry of its own making, says {"gone": {step, file, sha256}} to whoever is left, and ends.
Standard output and error may lose their reader at any time. Exit code 0, 75 when that save failed, 130 when aborted, 2
when the engine could not be made.
"""

import io
import os
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from andrea_lab.checkpoint.wishes import control_folder
from andrea_lab.engine.entries import entry_of
from andrea_lab.engine.errors import EngineError
from andrea_lab.engine.last_save import save_last
from andrea_lab.engine.lines import Lines, from_line, send
from andrea_lab.engine.signals import Aborted, Signals, Stopped

# What takes long to import is imported once signals are heard.

NAP = 0.05  # seconds between two looks for wishes while nothing is asked
IDLE = 3.0  # seconds that a wish waits for the proxy to see to it; a proxy on a busy machine must not lose its engine
VERBS = ("step", "save", "sample", "evaluate", "load", "poll", "close")
OK, MISTAKE, SAVE_FAILED, ABORTED = 0, 2, 75, 130


class Service:
    """Answers the requests of one proxy until it is gone, or a stop or an abort comes. Two descriptors to talk on."""

    def __init__(self, signals: Signals, requests: int, answers: int):
        self.signals, self._answers = signals, answers
        self._parent, self._deaf = os.getppid(), False
        self._lines = Lines(requests, self._watch_parent)
        self.engine: Any = None
        self.entry: dict[str, Any] | None = None  # of the last step done

    def run(self) -> int:
        """The exit code."""
        try:
            first = self._next()
            code = OK if first is None else self._make(first)
            if self.engine is None:
                return code
            while (line := self._next()) is not None:
                if (code := self._serve(line)) is not None:
                    return code
            return self._leave()
        except Aborted:
            return ABORTED

    # ------------------------------------------------------------------------------------------------ requests

    def _next(self) -> bytes | None:
        """The next request; None when nobody will ask for anything any more."""
        since = time.monotonic()
        while not self._deaf:
            with suppress(TimeoutError):
                return self._lines.get(NAP)
            wishes, alone = self.signals.poll(), os.getppid() != self._parent
            waited = time.monotonic() - max(since, self.signals.stop_since or 0.0)
            if alone or ("stop" in wishes and (waited > IDLE or self.engine is None)):
                return None
            if "save" in wishes and waited > IDLE:
                self._save_when_asked()
        return None

    def _make(self, line: bytes) -> int:
        from andrea_lab.engine import carried
        from andrea_lab.engine.engine import Engine
        from andrea_lab.model.config import parse

        try:
            request = from_line(line)
            run_dir = request.get("run_dir")
            if run_dir is not None:
                self.signals.watch(control_folder(run_dir))
            options = {key: request[key] for key in ("resume", "target", "threads") if request.get(key) is not None}
            config = parse(request.get("config"), "config")
            self.engine = Engine(config, run_dir=run_dir, signals=self.signals, **options)
        except Aborted:
            raise
        except (Exception, Stopped) as error:
            self._tell_unknown(error)
            self._send({"error": carried.to_plain(error)})
            return OK if isinstance(error, Stopped) else MISTAKE
        made = self.engine
        ready = {"n_params": made.layout.n_params, "sources": made.sources, "machine": made.machine}
        self._send({"ready": ready | {"loaded": made.loaded}})
        return OK

    def _serve(self, line: bytes) -> int | None:
        """Answer one request. The exit code when it was the last, else None."""
        from andrea_lab.engine import carried

        request, code = {}, None
        try:
            request = from_line(line)
            answer = {"answer": self._do(request)}
            code = OK if request["do"] == "close" else None
        except Aborted:
            raise
        except (Exception, Stopped) as error:
            self._tell_unknown(error)
            answer = {"error": carried.to_plain(error)}
            code = SAVE_FAILED if request.get("do") == "close" else None
        self._send(answer | {"id": request.get("id")})
        return code

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        verb = request.get("do")
        if verb not in VERBS:
            raise EngineError(f"do: found {verb!r:.60}, expected one of {', '.join(VERBS)}")
        if verb == "poll":
            return {}
        if verb == "close":
            self.engine.close()
            return {}
        if verb == "load":
            self.entry = None
            self.engine.load(Path(str(request.get("path"))))
            return {"loaded": self.engine.loaded}
        result = getattr(self.engine, verb)(request)
        if verb == "step" and not result.get("dropped"):
            self.entry = entry_of({"segment": 1, "policy": None} | request, result)
        return result

    # ------------------------------------------------------------------------------------------------ answers

    def _send(self, answer: dict[str, Any]) -> None:
        """Answer, if there is anybody left to hear it."""
        if self.engine is not None:
            answer |= {"done": self.engine.done, "want": list(self.signals.poll())}
            answer["save_errors"] = self.engine.save_errors
        try:
            send(self._answers, answer)
        except OSError:
            self._deaf = True

    def _tell_unknown(self, error: BaseException) -> None:
        """What no caller is to expect is a fault of the engine's: its traceback goes to standard error."""
        from andrea_lab.engine import carried

        if carried.known(error) in (None, "RuntimeError"):
            traceback.print_exception(error)

    # ------------------------------------------------------------------------------------------------ alone

    def _watch_parent(self) -> None:
        """The requests have ended: if the proxy is dead as well, whatever is being done may end early."""
        while os.getppid() == self._parent:
            time.sleep(NAP)
        self.signals.ask("stop")

    def _leave(self) -> int:
        """Save what is not saved, close, say so."""
        from andrea_lab.engine import carried

        code, gone = OK, None
        try:
            gone = self._save_own()
            self.engine.close()
        except (OSError, ValueError) as error:
            print(f"engine: {error}", file=sys.stderr)
            code, gone = SAVE_FAILED, {"error": carried.to_plain(error)}
        if not self._deaf:
            with suppress(OSError):
                send(self._answers, {"gone": gone})
        return code

    def _save_own(self) -> dict[str, Any] | None:
        """Save the last step with its own entry."""
        entry = self.entry
        if entry is None or entry["step"] != self.engine.done or self.engine.run_dir is None:
            return None
        saved = save_last(self.engine, {"step": entry["step"], "entry": entry})
        return {"step": entry["step"]} | saved

    def _save_when_asked(self) -> None:
        try:
            self._save_own()
        except (OSError, ValueError) as error:
            self.engine.store.errors.append(str(error))
        self.signals.clear("save")


class _Quiet(io.RawIOBase):
    """Standard error, which no lost reader makes fail."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with suppress(OSError):
            return os.write(2, data)
        return len(data)


def main() -> int:
    """Serve on what were standard input and output; whatever prints goes to standard error."""
    with Signals() as signals:
        requests, answers = os.dup(0), os.dup(1)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        sys.stdout = sys.stderr = io.TextIOWrapper(io.BufferedWriter(_Quiet()), "utf-8", "backslashreplace")
        sys.stderr.reconfigure(line_buffering=True)
        code = Service(signals, requests, answers).run()
        signals.deafen()
        return code


if __name__ == "__main__":
    sys.exit(main())

"""The parent's side of a measurement: a child process that answers requests, see children/serve.py."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CHILDREN = Path(__file__).resolve().parent / "children"


class BenchError(RuntimeError):
    """A benchmark that can not run or whose sides do not agree; the message is one line for the user."""


class Server:
    """A child process. `ask(do, **fields)` sends one request and returns the answer; use it as a context manager."""

    def __init__(self, name: str, command: list[str], env: dict[str, str]):
        self.name = name
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in close()
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.log, env=env)
        except OSError as error:
            self.log.close()
            raise BenchError(f"{name}: {command[0]} does not start: {error.strerror}") from None
        self.pid = self.process.pid
        self.rest = b""

    def ask(self, do: str, *, timeout: float = 600.0, progress: Callable[[str], None] | None = None, **fields) -> dict:
        """The answer to one request; `progress` is told what the child reports on the way.

        Raises BenchError when the child reports an error, dies, or is silent for `timeout` seconds.
        """
        try:
            self.process.stdin.write(json.dumps({"do": do, **fields}).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise BenchError(f"{self.name}: stopped before {do!r}: {self._last_words()}") from None
        while True:
            line = self._line(do, timeout)
            try:
                answer = json.loads(line)
            except ValueError:
                raise BenchError(f"{self.name}: {do}: found {line[:60]!r}, expected one line of JSON") from None
            if "error" in answer:
                raise BenchError(f"{self.name}: {do}: {answer['error']}")
            if "progress" not in answer:
                return answer
            if progress is not None:
                progress(answer["progress"])

    def _line(self, do: str, timeout: float) -> bytes:
        end = time.monotonic() + timeout
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.rest:
                if not waiting.select(max(0.0, end - time.monotonic())):
                    raise BenchError(f"{self.name}: no answer to {do!r} within {timeout:g} s")
                piece = os.read(self.process.stdout.fileno(), 1 << 16)
                if not piece:
                    raise BenchError(f"{self.name}: stopped during {do!r}: {self._last_words()}")
                self.rest += piece
        line, self.rest = self.rest.split(b"\n", 1)
        return line

    def _last_words(self) -> str:
        self.log.seek(0)
        lines = [line for line in self.log.read().splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"

    def close(self) -> None:
        """End the child: ask it, wait a moment, then insist."""
        with contextlib.suppress(OSError):
            self.process.stdin.write(b'{"do": "close"}\n')
            self.process.stdin.flush()
        with contextlib.suppress(OSError):  # closing flushes what a dead child did not take
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

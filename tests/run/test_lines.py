"""Files of lines that only grow: cheap to open and to append to, read from the end, safe after any error."""

import errno
import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.checkpoint.files import Files
from andrea_lab.run import lines
from andrea_lab.run.lines import Lines, append_line, backwards, forwards, good, parse


class Recording(Files):
    """The real file system; writes down what was called, and fails where it is told to."""

    def __init__(self, fail=None, after=0):
        self.calls, self.fail, self.after = [], fail, after

    def _note(self, name, what):
        self.calls.append((name, what))
        if name == self.fail:
            self.fail = None
            raise OSError(errno.ENOSPC, "No space left on device")

    def append(self, path):
        self._note("append", path.name)
        return super().append(path)

    def write(self, fd, data):
        if self.fail == "write" and self.after:
            super().write(fd, data[: self.after])
        self._note("write", bytes(data))
        return super().write(fd, data)

    def datasync(self, fd):
        self._note("datasync", fd)
        super().datasync(fd)

    def sync_folder(self, path):
        self._note("sync_folder", path.name)
        super().sync_folder(path)


pieces = st.sampled_from(
    [b"", b"\n", b"\n\n", b"\r\n", b"\0", b"\0" * 9, b" ", b"a", b"bc", b"{}", b'{"step": 1}', b"\xff"]
)


@given(st.lists(pieces, max_size=40), st.integers(1, 12))
def test_backwards_gives_the_lines_of_forwards(tmp_path_factory, parts, block):
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(b"".join(parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", block)
        assert list(backwards(path)) == [line for line in reversed(forwards(path)) if line]


@given(st.binary(max_size=40))
def test_any_bytes_are_an_object_or_refused(data):
    with suppress(ValueError):
        assert isinstance(parse(data), dict)


def test_what_is_no_object_is_refused_and_passed_over():
    for line in (b"[" * 100_000, b'{"a":' * 100_000, b"[]", b"1", b"null", b"{", b"\x80"):
        with pytest.raises(ValueError):
            parse(line)
    assert list(good([b"{", b"", b'{"a": 1}', b"[]"])) == [{"a": 1}]
    assert parse(b'\0\0{"a": 1}\r\0') == {"a": 1}


def test_a_line_is_one_write_and_one_sync(tmp_path):
    files = Recording()
    with Lines(tmp_path / "log", files) as log:
        log.append("one")
        log.append("two")
        fd = log._fd
    assert files.calls == [
        ("append", "log"),
        ("sync_folder", tmp_path.name),
        ("write", b"one\n"),
        ("datasync", fd),
        ("write", b"two\n"),
        ("datasync", fd),
    ]
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("tail", [b"", b'{"step": 7}\n', b'\n{"st', b"\0" * 5000])
def test_a_log_of_a_hundred_gigabytes_is_opened_and_read_at_its_end(tmp_path, tail):
    """A file with a hole that long: whoever read it whole would not come back."""
    path = tmp_path / "log"
    with open(path, "wb") as file:
        file.truncate(10**11)
        file.seek(0, 2)
        file.write(tail)
    with Lines(path) as log:
        log.append('{"step": 8}')
    assert next(good(backwards(path))) == {"step": 8}
    assert path.stat().st_size == 10**11 + len(tail) + len('{"step": 8}\n') + (not tail.endswith(b"\n"))


def test_appending_reads_one_byte_and_going_back_reads_blocks(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_bytes(b"".join(b'{"step": %d}\n' % step for step in range(200_000)))
    read = []

    class Counting(Files):
        def open(self, path):
            file = super().open(path)

            class Proxy:
                def __enter__(self):
                    return self

                def __exit__(self, *_):
                    file.close()

                def seek(self, *where):
                    return file.seek(*where)

                def read(self, size):
                    read.append(size)
                    return file.read(size)

            return Proxy()

    monkeypatch.setattr(lines, "REAL", Counting())
    with Lines(path) as log:
        log.append('{"step": 200000}')
    assert read == [1]
    steps = backwards(path)
    assert [parse(next(steps))["step"] for _ in range(100)] == list(range(200_000, 199_900, -1))
    assert read == [1, lines.BLOCK]


@pytest.mark.parametrize("after", range(5))
def test_after_a_full_disk_the_line_may_be_appended_again(tmp_path, after):
    path = tmp_path / "log"
    files = Recording()
    with Lines(path, files) as log:
        log.append("first")
        files.fail, files.after = "write", after
        with pytest.raises(OSError, match=f"No space left on device: '{path}'") as error:
            log.append("second")
        assert error.value.errno == errno.ENOSPC
        log.append("second")
        log.append("third")
    whole = [line for line in forwards(path) if line in (b"first", b"second", b"third")]
    assert whole == [b"first", b"second", b"third"]
    assert path.read_bytes() == b"first\n" + b"second"[:after] + (b"\n" if after else b"") + b"second\nthird\n"


def test_a_failed_sync_is_not_asked_of_that_descriptor_again(tmp_path):
    path, closed = tmp_path / "log", []
    files = Recording()
    close = files.close
    files.close = lambda fd: (closed.append(fd), close(fd))
    with Lines(path, files) as log:
        fd = log._fd
        files.fail = "datasync"
        with pytest.raises(OSError, match=str(path)):
            log.append("one")
        assert closed == [fd]
        log.append("one")
    assert [call for call, _ in files.calls] == [
        *("append", "sync_folder", "write", "datasync"),
        *("append", "write", "datasync"),
    ]
    assert set(forwards(path)) == {b"one", b""}


@pytest.mark.parametrize("same", [True, False])
def test_an_append_that_was_interrupted_is_closed_off(tmp_path, same):
    """By the same writer, which must not go on in the middle of a line, or by a later one."""

    class Interrupted(Files):
        def write(self, fd, data):
            super().write(fd, data[:2])
            raise KeyboardInterrupt

    path = tmp_path / "log"
    with Lines(path, Interrupted()) as log:
        with pytest.raises(KeyboardInterrupt):
            log.append("one")
        if same:
            log.files = Files()
            log.append("two")
    if not same:
        append_line(path, "two")
    assert forwards(path) == [b"on", b"two", b""]


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_file_removed_under_its_writer_is_noticed(tmp_path, what):
    folder = tmp_path / "run"
    folder.mkdir()
    with Lines(folder / "log") as log:
        log.append("one")
        os.remove(folder / "log")
        if what == "folder":
            folder.rmdir()
        with pytest.raises(OSError, match="removed while it was in use") as error:
            log.append("two")
        assert error.value.errno == errno.ENOENT and error.value.filename == str(folder / "log")


def test_a_folder_renamed_under_its_writer_is_no_matter(tmp_path):
    (tmp_path / "run").mkdir()
    with Lines(tmp_path / "run" / "log") as log:
        (tmp_path / "run").rename(tmp_path / "other")
        log.append("one")
    assert forwards(tmp_path / "other" / "log") == [b"one", b""]


def test_a_close_that_fails_as_well_hides_no_error(tmp_path):
    class Failing(Files):
        def datasync(self, fd):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self, fd):
            super().close(fd)
            raise OSError(errno.EIO, "Input/output error")

    lines = Lines(tmp_path / "log", Failing())
    with pytest.raises(OSError, match="No space left on device: '.*log'"):
        lines.append("{}")


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone/log"):
        Lines(tmp_path / "gone" / "log")
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "log").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="log"):
        Lines(tmp_path / "log")
    with pytest.raises(OSError, match="log"):
        forwards(tmp_path / "log")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a pipe"):
        list(backwards(tmp_path / "pipe"))
    assert (tmp_path / "precious").read_text() == "precious"

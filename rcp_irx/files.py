"""Files that people give and get: numbered lines, gzipped or not; texts written whole; errors that name the file."""

from __future__ import annotations

import contextlib
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

from rcp_irx.errors import RCPError

_GZIP = b"\x1f\x8b"
OPEN_FILES = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")
_MARK = b"\xef\xbb\xbf"


def lines(path: str | os.PathLike[str], what: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, without their ends, with their numbers from 1.

    Only a line feed ends a line, with or without a carriage return before it: texts may hold every other character.

    Raises
    ------
    RCPError
        If the file cannot be read, or has no such line.
    """
    number = 0
    empty = True
    try:
        with open(path, "rb") as plain:
            packed = plain.peek(2)[:2] == _GZIP
            with gzip.open(plain) if packed else plain as file:
                for number, line in enumerate(file, start=1):
                    line = (line.removeprefix(_MARK) if number == 1 else line).rstrip(b"\r\n")
                    if line.strip():
                        empty = False
                        yield number, line
    except (OSError, EOFError, zlib.error) as error:
        where = f", after line {number}" if number else ""
        raise RCPError(f"the {what} {os.fspath(path)} cannot be read{where}: {error}") from error
    if empty:
        raise RCPError(f"the {what} {os.fspath(path)} is empty")


def text_of(line: bytes, path: str | os.PathLike[str], number: int) -> str:
    """A line as text.

    Raises
    ------
    RCPError
        If it is no UTF-8.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RCPError(f"{os.fspath(path)}, line {number}: no UTF-8 text ({error})") from error


def write(path: str | os.PathLike[str], text: str) -> None:
    """Write a text whole or not at all; into a device or pipe directly, and through a link into what it names.

    Where the name ends in .gz, gzipped (equal texts make equal files).

    Raises
    ------
    RCPError
        If the place cannot be written to.
    """
    name = os.fspath(path)
    data = text.encode("utf-8")
    if name.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    target = Path(os.path.realpath(name))
    part = target.with_name(f".{target.name[:100]}.{os.getpid()}.part") if target.name else target
    try:
        if name.startswith(OPEN_FILES):
            with open(name, "ab") as file:  # what the shell has opened: added to, as the shell would
                file.write(data)
            return
        if not name or target.is_dir():
            raise IsADirectoryError("it is no name of a file")
        if os.path.exists(name) and not stat.S_ISREG(os.stat(name).st_mode):
            with open(name, "wb") as file:
                file.write(data)
            return
        part.write_bytes(data)
        part.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise RCPError(f"{name!r} cannot be written: {reason}") from error


def is_stdout(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of standard output."""
    return os.fspath(path) in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")

"""Rewrites files in children that are killed, disturbed or made to fail at a chosen system call.

Run as a program it reads a job a line from its standard input, and forks a child for each: a fork is quick, a fresh
Python with pyarrow is not. The child answers on its own line of the standard output unless it is killed; the parent
answers how it ended.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.storage import atomic, copying, create, open_source, rewrite

PREFIX = 70_001  # no whole number of checksum chunks
CALLS: list[tuple[Any, str]] = [
    *((os, name) for name in ("open", "close", "fstat", "lstat", "stat", "access", "fchmod", "fchown")),
    *((os, name) for name in ("listxattr", "getxattr", "setxattr", "pread", "pwrite", "ftruncate")),
    *((os, name) for name in ("copy_file_range", "fsync", "rename", "replace", "link", "unlink")),
    (fcntl, "ioctl"),
    (fcntl, "flock"),
    (atomic, "exchange"),
    (atomic, "rename_new"),
]
GENUINE = {name: getattr(module, name) for module, name in CALLS}


def contents(seed: int, size: int) -> bytes:
    """Bytes that differ everywhere, the same for the same seed."""
    return b"".join(zlib.crc32(b"%d %d" % (seed, i)).to_bytes(4, "big") for i in range(size // 4))


OLD = contents(1, 100_000)
NEW = OLD[:PREFIX] + contents(2, 20_000)
OTHER = contents(3, 60_000)


def checksums(data: bytes) -> bytes:
    """What Hadoop keeps beside a file of these contents."""
    sums = [zlib.crc32(data[first : first + 512]) for first in range(0, len(data), 512)]
    return b"crc\0" + struct.pack(f">{len(sums) + 1}I", 512, *sums)


class Steps:
    """Counts the moments before and after each system call, and does something at one of them."""

    def __init__(self, act: Callable[[str, int], None]) -> None:
        self.names: list[str] = []
        self._act = act
        self._acting = False

    def install(self) -> None:
        for module, name in CALLS:
            setattr(module, name, self._wrapped(GENUINE[name], name))

    def remove(self) -> None:
        for module, name in CALLS:
            setattr(module, name, GENUINE[name])

    def _moment(self, name: str) -> None:
        if self._acting:
            return
        self._acting = True
        try:
            self.names.append(name)
            self._act(name, len(self.names) - 1)
        finally:
            self._acting = False

    def _wrapped(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self._moment("before " + name)
            result = call(*args, **kwargs)
            self._moment("after " + name)
            return result

        return wrapper


def act(job: dict[str, Any]) -> Callable[[str, int], None]:
    """What happens at the chosen step."""
    kind, at, path = job["kind"], job["at"], job["path"]
    folder, name = os.path.split(path)
    crc = os.path.join(folder, f".{name}.crc")

    def replace_by_other() -> None:
        with open(path + ".other", "wb") as file:
            file.write(OTHER)
        os.replace(path + ".other", path)
        if kind == "hadoop replaces":
            with open(crc + ".other", "wb") as file:
                file.write(checksums(OTHER))
            os.replace(crc + ".other", crc)
        elif os.path.exists(crc):
            os.unlink(crc)

    def do(name: str, number: int) -> None:
        if kind == "fail for good" and number >= at and name.startswith("before"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if number != at:
            return
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "fail":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        elif kind == "interrupt":
            raise KeyboardInterrupt
        elif kind in ("replaces", "hadoop replaces"):
            replace_by_other()
        elif kind == "appends":
            with open(path, "ab") as file:
                file.write(b"more")
        elif kind == "removes":
            os.unlink(path)

    return do


def rewrite_once(job: dict[str, Any]) -> None:
    """One rewrite, as `embed` does it."""
    path = job["path"]
    if job["way"] == "create":
        with create(path) as new:
            new.write(NEW)
            new.commit()
        return
    with open_source(job.get("source", path)) as source, rewrite(source, path) as new:
        new.copy_prefix(PREFIX)
        for first in range(PREFIX, len(NEW), 7_000):
            new.write(NEW[first : min(len(NEW), first + 7_000)])
        new.commit()


def rewrite_for_ever(job: dict[str, Any]) -> None:
    """Rewrite after rewrite, each with another tail."""
    generation = 0
    while True:
        generation += 1
        with open_source(job["path"]) as source, rewrite(source) as new:
            new.copy_prefix(job["prefix"])
            new.write(contents(generation, 40_000))
            new.write(generation.to_bytes(8, "big"))
            new.commit()


def work(job: dict[str, Any]) -> dict[str, Any]:
    """The child: do the job, and say how it went."""
    if "without" in job:  # calls that this machine shall not have
        for name in job["without"]:
            unsupported(name)
    if job["kind"] == "for ever":
        rewrite_for_ever(job)
    steps = Steps(act(job))
    steps.install()
    outcome, text = "done", ""
    try:
        rewrite_once(job)
    except ParquetBloomError as error:
        outcome, text = type(error).__name__, str(error)
    except KeyboardInterrupt:
        outcome = "interrupted"
    except BaseException as error:
        outcome, text = "wrong", repr(error)
    steps.remove()
    return {"outcome": outcome, "text": text, "steps": steps.names}


def unsupported(name: str) -> None:
    """Let a call answer as an old kernel or a poor file system does."""

    def refuse(*args: Any) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    if name == "renameat2":
        atomic._rename = refuse  # type: ignore[assignment]
    elif name == "copy_file_range":
        GENUINE[name] = refuse
    else:
        raise ValueError(name)


def main() -> None:
    assert copying.PIECE
    for line in sys.stdin:
        job = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            answer = json.dumps(work(job)).encode()
            while answer:
                answer = answer[os.write(writing, answer) :]
            os._exit(0)
        os.close(writing)
        if job["kind"] == "for ever":
            print(json.dumps({"child": child}), flush=True)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            answer = json.dumps({"outcome": "killed", "signal": os.WTERMSIG(status)}).encode()
        else:
            answer = said
        print(answer.decode(), flush=True)


if __name__ == "__main__":
    main()

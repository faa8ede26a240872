"""Rewrites files in children that are killed, disturbed or made to fail at a chosen system call.

Run as a program it reads a job a line from its standard input and answers with a line on its standard output.
Children that are to die are forked: a fork is quick, a fresh Python with pyarrow is not.
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
from parquet_bloom.storage import create, open_source, rewrite
from parquet_bloom.storage.local import system_calls

PREFIX = 70_001  # no whole number of checksum chunks
CALLS: list[tuple[Any, str]] = [
    *((os, name) for name in ("open", "close", "fstat", "lstat", "stat", "access", "fchmod", "fchown")),
    *((os, name) for name in ("listxattr", "getxattr", "setxattr", "pread", "pwrite", "ftruncate")),
    *((os, name) for name in ("copy_file_range", "fsync", "rename", "replace", "link", "unlink")),
    (fcntl, "ioctl"),
    (fcntl, "flock"),
    (system_calls, "exchange"),
    (system_calls, "rename_new"),
]

RENAMEAT2 = system_calls._rename
GENUINE = {name: getattr(module, name) for module, name in CALLS}


def unsupported(*args: Any) -> None:
    """Fail as an old kernel does."""
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def contents(seed: int, size: int) -> bytes:
    """Bytes that differ everywhere, the same for the same seed."""
    return b"".join(zlib.crc32(b"%d %d" % (seed, i)).to_bytes(4, "big") for i in range(size // 4))


OLD = contents(1, 100_000)
NEW = OLD[:PREFIX] + contents(2, 20_000)
OTHER = contents(3, 60_000)


def checksums(data: bytes) -> bytes:
    """Return the checksum file that Hadoop stores next to a file of these contents."""
    sums = [zlib.crc32(data[first : first + 512]) for first in range(0, len(data), 512)]
    return b"crc\0" + struct.pack(f">{len(sums) + 1}I", 512, *sums)


class Steps:
    """Counts the moments before and after each system call, and does something at one of them."""

    def __init__(self, act: Callable[[str, int], None], without: list[str]) -> None:
        self.names: list[str] = []
        self._act = act
        self._acting = False
        self._without = without

    def install(self) -> None:
        """Wrap the calls; those that this machine shall not have answer as a poor file system does."""
        for module, name in CALLS:
            call = unsupported if name in self._without else GENUINE[name]
            setattr(module, name, self._wrapped(call, name))
        if "renameat2" in self._without:
            system_calls._rename = unsupported

    def remove(self) -> None:
        """Bring the genuine calls back."""
        for module, name in CALLS:
            setattr(module, name, GENUINE[name])
        system_calls._rename = RENAMEAT2

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
    """Act at the chosen step."""
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
    """Do the job, and say how it went."""
    if job["kind"] == "for ever":
        rewrite_for_ever(job)
    steps = Steps(act(job), job.get("without", []))
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


def main() -> None:
    """Answer jobs until the standard input ends."""
    # Disturbances come from the process itself, which would wait for a lease of its own; see `test_second_writer.py`.
    del fcntl.F_SETLEASE
    for line in sys.stdin:
        job = json.loads(line)
        if job["kind"] not in ("kill", "for ever"):
            print(json.dumps(work(job)), flush=True)
            continue
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            with os.fdopen(writing, "w") as pipe:
                json.dump(work(job), pipe)
            os._exit(0)
        os.close(writing)
        if job["kind"] == "for ever":
            print(json.dumps({"child": child}), flush=True)
        with os.fdopen(reading) as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            answer = json.dumps({"outcome": "killed", "signal": os.WTERMSIG(status)})
        print(answer, flush=True)


if __name__ == "__main__":
    main()

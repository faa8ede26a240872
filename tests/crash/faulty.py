"""Commands run in children whose system calls are counted and cut by `faults.c`.

Run as a program, with that library loaded before all others, it reads a job a line and answers with a line. Children
are forked: a fork is quick, a fresh Python with pyarrow is not. As a module it starts that program, and talks to it.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).parents[2]
BEFORE, HALF, AFTER = range(3)
KILL, ASK, SHORT, INTERRUPT = -1, -2, -3, -4
EVER = 1 << 40
WRITES = ",write,pwrite,writev,pwritev,copy_file_range,sendfile,"


class Rule(NamedTuple):
    """A fault at calls `first` to `last`: of those named in `calls` (",write,fsync,"), if any are.

    `action` is KILL, ASK (the parent process does something), SHORT (half of the bytes, with `when` HALF), INTERRUPT
    (as by Ctrl-C) or an errno; `when` is BEFORE the call, AFTER it, or HALF.
    """

    first: int
    last: int
    calls: str
    when: int
    action: int


class Call(NamedTuple):
    """A call that was made, or would have been; `inode` is the open file's, or that of what has the new name."""

    number: int
    name: str
    result: int
    errno: int
    offset: int
    length: int
    inode: int
    path: str
    other: str


@dataclass
class Outcome:
    """Outcome of a job.

    Attributes
    ----------
    killed : whether it killed itself, as the rule says.
    code, out, err : what the command exited with and printed, if it lived.
    calls : the calls that came to an end.
    """

    killed: bool
    code: int = -1
    out: str = ""
    err: str = ""
    calls: list[Call] = field(default_factory=list)


def compiled(folder: Path) -> Path:
    """The library, made in a folder."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler is not None
    library = folder / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, source, "-ldl"], check=True)
    return library


class Commands:
    """The program, from outside."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "log"
        environment = {**os.environ, "PYTHONPATH": str(PROJECT), "LD_PRELOAD": str(compiled(folder))}
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def run(
        self,
        arguments: Sequence[str],
        under: Sequence[Path],
        rules: Sequence[Rule] = (),
        on_asked: Callable[[], None] | None = None,
        program: str = "parquet_bloom.cli",
        reads: bool = False,
    ) -> Outcome:
        """Run a command while calls below folders are counted, and rules hold; temporary files go to the last one.

        `program` is the module whose `main` takes the arguments; `reads` counts also calls that open a file to read it.
        """
        job = {"arguments": arguments, "under": ":".join(map(str, under)), "rules": rules, "log": str(self._log)}
        job["program"], job["reads"] = program, reads
        job["scratch"] = str(under[-1])
        self._say(json.dumps(job))
        answer = self._heard()
        while "asked" in answer:
            assert on_asked is not None
            on_asked()
            self._say("go on")
            answer = self._heard()
        lines = self._log.read_text(errors="surrogateescape").splitlines()
        fields = [line.split("\t") for line in lines]
        calls = [Call(int(f[0]), f[1], *map(int, f[2:7]), f[7], f[8]) for f in fields]
        return Outcome(**answer, calls=calls)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate()


# --------------------------------------------------------------------------------------------------------- the program


def work(job: dict[str, Any], log: int, pipes: tuple[int, int], out: Any, err: Any, modules: Any) -> int:
    """Run the command in this process, and note what it has imported; returns its exit code."""
    main = import_module(job["program"]).main
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    tempfile.tempdir = job["scratch"]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have told its jobs to ignore
    before = set(sys.modules)
    library = ctypes.CDLL(None)
    library.faults_rule.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    for first, last, calls, when, action in job["rules"]:
        library.faults_rule(first, last, calls.encode(), when, action)
    if job["reads"]:
        library.faults_reads()
    library.faults_start(os.fsencode(job["under"]), log, *pipes)
    code = main(job["arguments"])
    library.faults_stop()
    sys.stdout.flush()
    sys.stderr.flush()
    modules.write("\n".join(sys.modules.keys() - before).encode())
    modules.flush()
    return code


def supervise(child: int, asking: int, answering: int, say: Callable[[Any], None]) -> int:
    """Hand on what a child asks, until it has ended; returns how."""
    with os.fdopen(asking, "rb", 0) as questions, os.fdopen(answering, "wb", 0) as answers:
        while questions.read(1):
            say({"asked": True})
            sys.stdin.readline()
            answers.write(b"!")
    return os.waitpid(child, 0)[1]


def do(job: dict[str, Any], say: Callable[[Any], None]) -> None:
    """Fork a child for the job, and return its outcome."""
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    asking, ask = os.pipe()
    answer, answering = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as modules:
        child = os.fork()
        if not child:
            os.close(asking)
            os.close(answering)
            code = 99
            try:
                code = work(job, log, (ask, answer), out, err, modules)
            finally:
                os._exit(code)
        for descriptor in (log, ask, answer):
            os.close(descriptor)
        status = supervise(child, asking, answering, say)
        texts = {}
        for name, file in (("out", out), ("err", err)):
            file.seek(0)
            texts[name] = file.read().decode()
        modules.seek(0)
        for name in modules.read().decode().split():  # the next child need not
            with suppress(ImportError):
                import_module(name)
    killed = os.WIFSIGNALED(status)
    say({"killed": killed, "code": -1 if killed else os.WEXITSTATUS(status), **texts})


def main() -> None:
    """Answer jobs until the standard input ends."""
    import_module("parquet_bloom.file.identity").SETTLED_NS = -1  # type: ignore[attr-defined]  # nothing else changes files
    say = sys.stdout.write

    def answer(what: Any) -> None:
        say(json.dumps(what) + "\n")
        sys.stdout.flush()

    while line := sys.stdin.readline():
        do(json.loads(line), answer)


if __name__ == "__main__":
    main()

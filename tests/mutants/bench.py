"""A copy of the project in which faults are planted, one at a time: sources, tests and compiled modules."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from catalogue import Fault

TIERS = {
    "default": ("-m", "not ci and not long"),
    "ci": ("-m", "not long", "--hypothesis-profile", "ci"),
}  # as tools/test.sh runs them
TEST_SECONDS = 300  # a test that a fault lets hang has noticed it
_END_SECONDS = 10

# Builds the modules named, and no other: by its times a copy looks as if nothing had ever been built.
_BUILD = """
import sys, setup
from Cython.Build import cythonize
from Cython.Compiler import Options
Options.warning_errors = True
chosen = [module for module in setup.extensions() if module.name in sys.argv[1:]]
modules = cythonize(chosen, nthreads=len(chosen) // 2, compiler_directives=setup.directives, force=True)
command = ["build_ext", "--inplace", "--force"]
setup.setup(ext_modules=modules, cmdclass={"build_ext": setup.BuildModules}, script_args=command)
"""


class Ended(NamedTuple):
    """A process that has ended: its exit code, and what it printed."""

    code: int
    text: str


class Bench:
    """The copy.

    Parameters
    ----------
    project : what is copied: the files that git knows or would add, and the compiled modules beside them.
    folder : where to.
    """

    def __init__(self, project: Path, folder: Path) -> None:
        self.folder = folder
        listed = ["git", "-C", project, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
        folders = {(project / name).parent for name in names if name.endswith(".pyx")}
        compiled = [file.relative_to(project) for folder in folders for file in folder.glob("*.so")]
        for name in filter(None, [*names, *map(str, compiled)]):
            if (project / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(project / name, folder / name)
        # Files of other projects are looked for beside the project.
        self._environment = {"PARQUET_BLOOM_CORPUS": str(project.parent / "shared" / "corpus")} | os.environ
        self._environment["PYTHONPATH"] = str(folder)

    def imported(self, package: str) -> Path:
        """Return where the copy's Python finds a package."""
        return Path(self._run(["-c", f"import {package}; print({package}.__file__)"]).text.strip())

    def test(self, tests: Sequence[str], tier: str, *more: str) -> Ended:
        """Run those of some tests that a tier has, as it runs them."""
        options = ["-q", "-p", "no:cacheprovider", *TIERS[tier], "-o", f"timeout={TEST_SECONDS}", *more]
        return self._run(["-m", "pytest", *options, *tests])

    @contextmanager
    def planted(self, fault: Fault) -> Iterator[Ended | None]:
        """Plant a fault, and take it out again; yields how the build failed where it did."""
        source = self.folder / fault.file
        modules = [".".join(Path(module).with_suffix("").parts) for module in fault.modules]
        built = [file for module in fault.modules for file in self._built(module)]
        before = {path: path.read_bytes() for path in (source, *built)}
        try:
            source.write_text(before[source].decode().replace(fault.old, fault.new), encoding="utf-8")
            _forget_bytecode(source)
            ended = self._run(["-c", _BUILD, *modules]) if modules else None
            yield ended if ended and ended.code else None
        finally:
            for path, data in before.items():
                path.unlink(missing_ok=True)  # to write into a module that a process still has would end that
                path.write_bytes(data)
            _forget_bytecode(source)

    def _built(self, module: str) -> list[Path]:
        source = self.folder / module
        return list(source.parent.glob(f"{source.stem}.*.so"))

    def _run(self, arguments: Sequence[str]) -> Ended:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # with all that it starts it is one group, which can be ended
        )
        try:
            text, _ = process.communicate()
        except BaseException:
            _end(process)
            raise
        return Ended(process.returncode, text)


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and those it has started: first so that servers of tests are stopped, then for good."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_END_SECONDS)


def _forget_bytecode(source: Path) -> None:
    """Remove what Python has made of a source: by time and size a planted one may look like the one before."""
    if source.suffix == ".py":
        Path(importlib.util.cache_from_source(str(source))).unlink(missing_ok=True)


def failed(text: str) -> list[str]:
    """Return the tests that have failed, by pytest's summary; errors outside of tests are not among them."""
    return re.findall(r"^FAILED (\S+?)(?:\[.*|\s.*)?$", text, re.MULTILINE)

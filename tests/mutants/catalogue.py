"""The faults of `faults/*.toml`: what each plants where, and which tests should notice."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
FAULTS = Path(__file__).resolve().parent / "faults"
TIERS = ("default", "ci")


@dataclass(frozen=True)
class Fault:
    """One change of the product that no test run may let through.

    Attributes
    ----------
    name : for people and the command line.
    breaks : what it breaks, in one sentence.
    file : the source, by its path in the project.
    old, new : its text, which occurs once, and what takes its place.
    tests : test files or functions of which one at least must fail.
    tier : the fastest run of the suite that has these tests: "default", or "ci".
    modules : sources of the compiled modules that must be built anew; a `.pyx` is its own.
    """

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    tier: str
    modules: tuple[str, ...] = ()

    @classmethod
    def of(cls, fields: dict[str, object]) -> Fault:
        """Read one from a table of a TOML file; TypeError names a field that is missing or unknown."""
        lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        fault = cls(**(fields | lists))  # type: ignore[arg-type]
        return cls(**(vars(fault) | {"modules": (fault.file,)})) if fault.file.endswith(".pyx") else fault

    @property
    def folder(self) -> str:
        """Return the folder of its source, below the package."""
        parts = Path(self.file).parts[1:]
        return "/".join(parts[:-1]) or "."

    def problem(self, project: Path = PROJECT) -> str | None:
        """Return why it cannot be planted or caught, or None."""
        source = project / self.file
        if not source.is_file():
            return f"there is no {self.file}"
        count = source.read_text(encoding="utf-8").count(self.old)
        if count != 1:
            return f"its old text occurs {count} times in {self.file}"
        if self.new == self.old:
            return "its new text is the old one"
        if self.tier not in TIERS:
            return f"{self.tier!r} is not a tier"
        if source.suffix in (".h", ".pxd", ".pxi") and not self.modules:
            return f"it does not say which modules have {self.file} in them"
        missing = [module for module in self.modules if not (project / module).is_file()]
        missing += [test for test in self.tests if not exists(test, project)]
        if missing or not self.tests:
            return f"there is no {', '.join(missing) or 'test'}"
        return None


def exists(test: str, project: Path = PROJECT) -> bool:
    """Return whether there is a test file, or a function in one, of the name that pytest gives it."""
    path, _, function = test.partition("::")
    file = project / path
    if not file.is_file() or not function:
        return file.is_file()
    return function in list_functions(file)


@cache
def list_functions(file: Path) -> set[str]:
    """Return the names of the functions and methods of a test file."""
    return set(re.findall(r"^ *def (\w+)\(", file.read_text(encoding="utf-8"), flags=re.MULTILINE))


def load(folder: Path = FAULTS) -> list[Fault]:
    """Read all faults, in the order of the files and in them."""
    tables = [tomllib.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.toml"))]
    return [Fault.of(fields) for table in tables for fields in table["fault"]]

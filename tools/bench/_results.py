"""RESULTS.md: the last output of each benchmark, under its name.

_results.py NAME    stores standard input under NAME.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
TITLE = "# Results of the benchmarks\n\nWritten by `bash tools/bench.sh`; each part says where and how it ran.\n"


def keep(path: Path, name: str, output: str) -> None:
    """Replace or add the part `name` of a file of results; others stay as they are, with what people wrote there."""
    parts = dict(_parts(path.read_text())) if path.exists() else {}
    parts[name] = f"```text\n{output.strip()}\n```"
    path.write_text(TITLE + "".join(f"\n## {name}\n\n{parts[name]}\n" for name in sorted(parts)))


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each part."""
    name, lines, is_output = "", list[str](), False
    for line in text.splitlines():
        is_output ^= line.startswith("```")
        heading = None if is_output else re.fullmatch(r"## (\S+)", line)
        if heading is None:
            lines.append(line)
            continue
        if name:
            yield name, "\n".join(lines).strip("\n")
        name, lines = heading[1], []
    if name:
        yield name, "\n".join(lines).strip("\n")


class _Tee(io.TextIOBase):
    """Writes to standard output and records it."""

    def __init__(self) -> None:
        self.text = ""
        self._screen = sys.stdout

    def write(self, text: str) -> int:
        self.text += text
        self._screen.write(text)
        self._screen.flush()
        return len(text)


@contextmanager
def record(path: Path | None, name: str) -> Iterator[None]:
    """Store the output of the `with` statement, if it succeeds and a path is given."""
    if path is not None and not path.parent.is_dir():
        raise SystemExit(f"{path}: there is no such folder")
    tee = _Tee()
    with redirect_stdout(tee):
        yield
    if path is not None:
        keep(path, name, tee.text)


if __name__ == "__main__":
    keep(RESULTS, sys.argv[1], sys.stdin.read())

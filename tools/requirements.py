"""Print what pyproject.toml asks pip for, a requirement a line: to build, to run, and for the extras named."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path


def expand(requirements: list[str], name: str, extras: dict[str, list[str]]) -> Iterator[str]:
    """Replace the project's own extras (`name[extra,extra]`) by what they stand for."""
    for requirement in requirements:
        own = re.fullmatch(rf"{re.escape(name)}\[([\w,\s-]+)\]", requirement)
        if own:
            for extra in own.group(1).split(","):
                yield from expand(extras[extra.strip()], name, extras)
        else:
            yield requirement


def main(extras: list[str]) -> None:
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    project = settings["project"]
    known = project["optional-dependencies"]
    wanted = settings["build-system"]["requires"] + project["dependencies"]
    for extra in extras:
        if extra not in known:
            sys.exit(f"pyproject.toml has no extra named {extra}")
        wanted += known[extra]
    print(*sorted(set(expand(wanted, project["name"], known))), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])

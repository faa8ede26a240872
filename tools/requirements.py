"""Print what pyproject.toml requires to build, to run and for the extras given; for these --only; or to --build."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path


def expand(requirements: list[str], name: str, extras: dict[str, list[str]]) -> Iterator[str]:
    """Replace the project's own extras (`name[extra,extra]`) by their requirements."""
    for requirement in requirements:
        match = re.fullmatch(rf"{re.escape(name)}\[([\w,\s-]+)\]", requirement)
        if match:
            for extra in match.group(1).split(","):
                yield from expand(extras[extra.strip()], name, extras)
        else:
            yield requirement


def main(extras: list[str]) -> None:
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    project = settings["project"]
    optional = project["optional-dependencies"]
    requirements = settings["build-system"]["requires"] + project["dependencies"]
    if extras[:1] == ["--build"]:
        requirements, extras = settings["build-system"]["requires"], extras[1:]
    if extras[:1] == ["--only"]:
        requirements, extras = [], extras[1:]
    for extra in extras:
        if extra not in optional:
            sys.exit(f"pyproject.toml has no extra named {extra}")
        requirements += optional[extra]
    print(*sorted(set(expand(requirements, project["name"], optional))), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])

"""The help of every command: an example, exit codes, 80 columns, and paragraphs that are laid out as they are meant."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from parquet_bloom import cli
from parquet_bloom.cli.command import wrap_command


def find_commands(group: click.Group = cli.tool, before: str = "") -> Iterator[str]:
    """Yield the names of all commands and groups."""
    context = click.Context(group)
    for name in group.list_commands(context):
        yield before + name
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from find_commands(command, f"{before}{name} ")


NAMES = ["", *find_commands()]


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_every_command_is_legible(name, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = run(*name.split(), "--help")
    lines = done.out.splitlines()
    assert done.code == 0
    assert [line for line in lines if len(line) > 80] == []
    assert "\\b" not in done.out
    assert "\b" not in done.out
    assert lines[0].startswith(f"Usage: parquet-bloom {name}".rstrip())
    examples = lines[lines.index("  Example:") + 1 :]
    assert examples[0].startswith(f"    parquet-bloom {name}".rstrip())
    assert name == "" or any(line.startswith("  Exit codes: 0 ") for line in lines)
    # Columns of a table that were wrapped as if they were a sentence have spaces in the middle of its lines.
    end = next(number for number, line in enumerate(lines) if line in ("Options:", "Commands:"))
    assert [line for line in lines[1:end] if re.search(r"\S {2,}\S.*\S {2,}\S", line)] == []


def test_a_line_of_shell_is_broken_before_options_alone():
    assert wrap_command("parquet-bloom show lake/ --json") == ["parquet-bloom show lake/ --json"]
    line = f"parquet-bloom find lake/ --where \"a = '- {'x' * 40} -'\" --limit 5 --format ndjson | jq .url"
    assert wrap_command(line) == [
        "parquet-bloom find lake/ \\",
        f"    --where \"a = '- {'x' * 40} -'\" --limit 5 \\",
        "    --format ndjson | jq .url",
    ]
    assert " ".join(part.strip(" \\") for part in wrap_command(line)) == line


@pytest.mark.parametrize(
    ("given", "similar"), [(["fnd"], "find"), (["index", "creat"], "create"), (["zones", "bild"], "build")]
)
def test_a_mistyped_command_is_corrected(given, similar, run):
    done = run(*given, "lake")
    assert done.code == 2
    program = " ".join(["parquet-bloom", *given[:-1]])
    problem = f"no such command {given[-1]!r}; did you mean {similar!r}? (see {program} --help)"
    assert done.errors == [f"error: {problem}"]
    assert "did you mean" not in run("xyzzy").err

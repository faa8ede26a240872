"""What messages name exists: options, commands, and what was mistyped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import parquet_bloom
from parquet_bloom.cli import tool
from parquet_bloom.cli.lazy_group import suggest

PACKAGE = Path(parquet_bloom.__file__).parent
OF_OTHERS = {
    "cli/commands/spark_archive.py": {"--archives", "--conf"},  # of spark-submit, which it prints
    "tables/iceberg/catalogs.py": {"--uri"},  # of pyiceberg, whose message is recognised by it
}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
QUOTED = re.compile(r"`(?:parquet-bloom )?([a-z][a-z-]*)(?: ([a-z-]+))?(?: [A-Z-][^`]*)?`")


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


COMMANDS = dict(commands(tool))
OPTIONS = {"--help", "--version"} | {
    name
    for command in COMMANDS.values()
    for option in command.params
    for name in (*option.opts, *option.secondary_opts)
}


def texts(path: Path) -> Iterator[str]:
    """Yield the string literals of a module that are not docstrings, those of an f-string or a concatenation in one."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            parts = [part for part in node.values if isinstance(part, ast.Constant)]
            skipped.update(map(id, parts))
            yield "{}".join(str(part.value) for part in parts)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


SOURCES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def test_options_in_texts_exist():
    """`parquet_bloom.cli` has texts of options; other folders have errors that name some."""
    found = 0
    for name in SOURCES:
        named = {option for text in texts(PACKAGE / name) for option in OPTION.findall(text)}
        assert named - OF_OTHERS.get(name, set()) <= OPTIONS, name
        found += len(named)
    assert found > 150


def test_commands_in_texts_exist():
    names = {path[0] for path in COMMANDS}
    found = 0
    for name in SOURCES:
        if not name.startswith(("cli/", "file/", "lake/", "zones/", "orc/", "tables/")):
            continue
        for text in texts(PACKAGE / name):
            for first, second in QUOTED.findall(text):
                if "parquet-bloom" not in text and first not in names:
                    continue
                found += 1
                assert (first,) in COMMANDS, (name, text)
                if isinstance(COMMANDS[first,], click.Group) and second:
                    assert (first, second) in COMMANDS, (name, text)
    assert found >= 3


@pytest.mark.parametrize("path", [path for path in COMMANDS if path != ("completion",)], ids=" ".join)
def test_options_in_the_help_of_a_command_are_its_own(path):
    """But for those of a command that the text names as well."""
    command = COMMANDS[path]
    context = click.Context(command, info_name=" ".join(("parquet-bloom", *path)))
    shown = " ".join(command.get_help(context).split())
    own = {"--help"} | {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    for option in {*OPTION.findall(shown)} - own:
        others = [
            other for other in COMMANDS if option in {name for one in COMMANDS[other].params for name in one.opts}
        ]
        assert any(" ".join(other) in shown for other in others), option


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["embed", "lake", "--colum", "id"], "; did you mean '--column'?"),
        (["embed", "lake", "--column_", "id"], "; did you mean '--column'?"),
        (["show", "lake", "--columns", "id"], "; did you mean '--column'?"),
        (["show", "lake", "--colour", "never"], "; did you mean '--color'?"),
        (["embed", "lake", "--inplace"], "; did you mean '--in-place'?"),
        (["find", "lake", "--were", "id = 1"], "; did you mean '--where'?"),
        (["find", "lake", "--case"], "; did you mean '--case-sensitive' or '--case-insensitive'?"),
        (["index", "lookup", "x", "--colum", "id"], "; did you mean '--column'?"),
        (["prune", "lake", "--wher", "id = 1"], "; did you mean '--where'?"),
        (["find", "lake", "--uri", "x"], ""),
        (["advise", "lake", "--html", "x"], ""),
        (["size", "--ids", "3"], ""),
        (["--jsn"], ""),
    ],
)
def test_a_mistyped_option(arguments, hint, run):
    result = run(*arguments)
    (option,) = [one for one in arguments if one.startswith("--")]
    command = " ".join(
        ["parquet-bloom", *([] if arguments[0] == option else arguments[: 1 + (arguments[0] == "index")])]
    )
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: no such option {option!r}{hint} (see {command} --help)\n"


def test_what_is_suggested_is_near():
    for command in COMMANDS.values():
        names = [name for option in command.params for name in option.opts if name.startswith("--")]
        for name in names:
            missing = name[:3] + name[4:]
            if missing not in names and len(name) > 6:
                assert repr(name) in suggest(missing, names)
        assert suggest("--zzz", names) == suggest("--", names) == ""


def test_a_column_that_differs_in_case(tmp_path, run, lake):
    for arguments in (["get", "lake", "--key", "ID=3"], ["locate", "lake", "--key", "ID=3"]):
        result = run(*arguments)
        assert result.code == 2
        assert result.err.endswith("column 'ID': the dataset has no such column; 'id' differs in case only\n")
    assert "--case-insensitive" in run("find", "lake", "--where", "ID = 3").err


def test_a_catalog_without_a_place(run, monkeypatch, tmp_path):
    pytest.importorskip("pyiceberg")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    result = run("show", "--iceberg-catalog", "not there", "--table", "db.events")
    assert result.code == 2
    assert "the catalog 'not there' has no uri; give it in pyiceberg's configuration" in result.err
    assert "--uri" not in result.err

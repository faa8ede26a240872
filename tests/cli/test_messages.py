"""What messages name exists: options, commands, and what was mistyped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.cli import tool
from parquet_bloom.cli.lazy_group import suggest

PACKAGE = Path(parquet_bloom.__file__).parent
OF_OTHERS = {
    "cli/commands/archive_command.py": {"--archives", "--conf"},  # of spark-submit, which it prints
    "tables/iceberg/iceberg_table.py": {"--uri"},  # of pyiceberg, whose message is recognised by it
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
    assert found > 80


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
        (["show", "lake", "--html", "x"], ""),
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


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["find", "lake", "--where", "id = 4250", "--where", "id = 100"], "--where"),
        (["find", "lake", "--where=id = 4250", "--limit=1", "--limit", "2"], "--limit"),
        (["find", "lake", "--keys", "a", "--keys", "b", "--key-column", "id"], "--keys"),
        (["embed", "lake", "--column", "id", "-o", "x", "--output", "y"], "--output"),
        (["index", "lookup", "x", "id", "1", "--timezone", "UTC", "--timezone", "UTC"], "--timezone"),
        (["size", "--ndv", "5", "--ndv", "6"], None),
    ],
)
def test_an_option_of_one_value_is_given_once(arguments, option, lake, run):
    """Of two conditions the first would count for nothing, and rows be printed that it does not select."""
    result = run(*arguments)
    if option is None and result.code == 0:  # the option is repeatable
        return
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {option or '--ndv'} is given twice, and has one value (see parquet-bloom ")
    assert len(result.err.splitlines()) == 1


def test_formats_and_colors_may_be_overridden(lake, run):
    assert run("show", "lake", "--format", "csv", "--color", "never", "--format", "json", "--color", "always").code == 0
    assert run("show", "lake", "--column", "id", "--column", "tag", "--json", "--json").code == 0


def test_standard_output_is_no_output_file(lake, run):
    result = run("embed", "lake/by=spark/part-0.parquet", "--column", "id", "-o", "-")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: -o names a file or a folder, not standard output (./- is a file of that name)")
    assert not Path("-").exists()


def test_an_index_whose_lake_is_empty(tmp_path, run, monkeypatch):
    """As a mount that is missing is: neither is it up to date, nor is there no row."""
    monkeypatch.chdir(tmp_path)
    Path("lake").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3]}), "lake/a.parquet")
    assert run("index", "create", "ids.index", "--column", "id", "--lake", "lake").code == 0
    assert run("index", "append", "ids.index").code == 0
    Path("lake/a.parquet").rename("a.parquet")
    for command in ("find", "prune"):
        result = run(command, "--index", "ids.index", "--where", "id = 2")
        assert result.code == 2
        assert result.errors == ["error: ids.index: no files in its lake"]
    for paths in ([], ["lake"]):
        result = run("index", "append", "ids.index", *paths)
        assert result.code == 2
        (error,) = result.errors
        assert error.endswith("lake: no files in it")
    assert run("index", "append", "ids.index", "-", stdin="").code == 0  # an empty list is none
    Path("a.parquet").rename("lake/a.parquet")
    assert run("index", "append", "ids.index").code == 0
    assert run("find", "--index", "ids.index", "--where", "id = 2").code == 0

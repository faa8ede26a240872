"""Common behaviour of all commands: help, usage errors, the ways to call them, bugs."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

import parquet_bloom
from parquet_bloom import cli
from parquet_bloom.cli.commands import index_command as index

COMMANDS = list(cli.COMMANDS)
OF_INDEX = [f"index {name}" for name in index.COMMANDS]
PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("command", COMMANDS + OF_INDEX)
def test_help_explains_every_option_and_gives_an_example(command, run):
    result = run(*command.split(), "--help")
    assert (result.code, result.err) == (0, "")
    assert "Exit codes:" in result.out
    assert f"Example:\n    parquet-bloom {command} " in result.out
    created = cli.tool
    for name in command.split():
        created = created.get_command(None, name)
    for parameter in created.params:
        assert parameter.param_type_name == "argument" or parameter.help, parameter.name


def test_help_lists_the_commands(run):
    result = run("--help")
    assert result.code == 0
    for command, (_, text) in cli.COMMANDS.items():
        assert re.search(rf"^  {command} +{re.escape(text)}$", result.out, re.MULTILINE)


def test_help_lists_the_commands_about_an_index(run):
    result = run("index", "--help")
    assert result.code == 0
    for command, (_, text) in index.COMMANDS.items():
        assert re.search(rf"^  {command} +{re.escape(text)}$", result.out, re.MULTILINE)
    result = run("index")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: parquet-bloom index ")


@pytest.mark.parametrize("group", [[], ["index"]])
def test_help_imports_no_command(group):
    code = f"import sys; from parquet_bloom import cli; cli.main([*{group}, '--help']); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = out.splitlines()[-1].split()
    modules = {module for module, _ in (*cli.COMMANDS.values(), *index.COMMANDS.values())}
    commands = {f"parquet_bloom.cli.commands.{module}" for module in modules}
    assert commands & set(loaded) == {f"parquet_bloom.cli.commands.{name}_command" for name in group}
    assert "rich.progress" not in loaded
    assert "rich.console" not in loaded


def test_no_command_shows_the_help_as_an_error(run):
    result = run()
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: parquet-bloom ")


def test_version(run):
    assert run("--version").out == f"parquet-bloom {parquet_bloom.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["shwo"], "no such command 'shwo'"),
        (["show"], "missing argument 'PATH...' (see parquet-bloom show --help)"),
        (["show", "x", "--form", "yaml"], "no such option"),
        (["show", "x", "--format", "yaml"], "'yaml' is not one of"),
        (["show", "x", "--row-group", "-1"], "row-group"),
        (["prune", "x"], "missing option '--where'"),
        (["embed", "x", "--in-place"], "missing option '--column'"),
        (["embed", "x", "--column", "id"], "no target given: add -o PATH, --in-place or --dry-run"),
        (["embed", "x", "--column", "id", "-o", "y", "--in-place"], "-o and --in-place exclude each other"),
        (["embed", "x", "--column", "id", "--in-place", "--fpp", "much"], "'much' is not a valid float"),
        (["index", "apend"], "no such command 'apend'"),
        (["index", "create", "x"], "no column given: add --column NAME (see parquet-bloom index create --help)"),
        (["index", "create", "x", "id", "--expected-values", "-1"], "'-1' is not an integer"),
        (["index", "create", "x", "id", "--lake", "a", "--delta", "b"], "--lake and --delta exclude each other"),
        (["index", "append", "x", "a", "--iceberg", "b"], "a PATH and --iceberg exclude each other"),
        (["index", "append", "x", "a", "--memory-limit", "much"], "'much' is not a size such as 512MB or 2GiB"),
        (["index", "remove", "x"], "missing argument 'PATH...'"),
        (["index", "lookup", "x", "id"], "missing argument 'VALUE...'"),
        (
            ["index", "lookup", "x", "id", "5", "--jsn"],
            "no such option '--jsn'; did you mean '--json'? (see parquet-bloom index lookup",
        ),
        (["index", "lookup", "x", "id", "5", "-6x"], "no such option '-6x'"),
        (["index", "lookup", "x", "id", "5", "--timezone", "Nowhere"], "'Nowhere' is not a known time zone"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(arguments, expected, run):
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    (line,) = result.err.splitlines()
    assert line.startswith("error: ")
    assert expected in line


def test_python_m_and_the_tool_are_the_command_line(lake, spawn):
    shown = spawn("show", "lake", "--json")
    assert shown.code == 0
    script = subprocess.run(
        [sys.executable, PROJECT / "tools" / "inspect_bloom.py", "lake", "--json"], capture_output=True, text=True
    )
    assert (script.returncode, script.stdout, script.stderr) == (0, shown.out, "")


def test_main_returns_the_exit_code(lake, capfd):
    assert cli.main(["verify", "lake"]) == 0
    assert cli.main(["verify", "broken.parquet"]) == 1
    assert cli.main(["verify", "missing.parquet"]) == 2
    assert capfd.readouterr().err.splitlines()[-2].startswith("error: missing.parquet: ")


def test_a_bug_is_one_line_and_with_v_a_traceback(lake, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError("it was\nnot meant")

    monkeypatch.setattr(import_module("parquet_bloom.cli.commands.show_command"), "_rows", fail)
    result = CliRunner().invoke(cli.tool, ["show", "lake"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: a bug, please report it with the output of -v: RuntimeError: it was not meant\n"
    verbose = CliRunner().invoke(cli.tool, ["show", "lake", "-v"])
    assert "Traceback (most recent call last):" in verbose.stderr
    assert verbose.stderr.splitlines()[-1] == "error: a bug, please report it: RuntimeError: it was not meant"


def test_v_tells_each_file_and_where_time_went(lake, run):
    result = run("verify", "lake", "-v")
    assert "lake/by=spark/part-0.parquet: 2 filters, none of them bad; only their structure was checked" in result.err
    assert re.fullmatch(r"time: find files \d+\.\d{3} s, verify \d+\.\d{3} s", result.err.splitlines()[-1])
    assert "time:" not in run("verify", "lake").err

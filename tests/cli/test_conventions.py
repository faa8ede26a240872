"""Conventions of every command that takes PATHs: formats, streams, errors, lists on stdin."""

from __future__ import annotations

import csv
import io
import json
import shlex
import shutil
import subprocess
import sys

import pytest

from parquet_bloom import cli

# Each writes nothing, so that it may be run again.
COMMANDS = {
    "show": [],
    "advise": [],
    "embed": ["--column", "id", "--dry-run", "--replace"],
    "drop": ["--dry-run"],
    "verify": [],
    "find": ["--where", "id = 4250"],
    "prune": ["--where", "id = 4250"],
}
ALL_OR_NOTHING = {"get", "locate"}  # their errors are in test_get.py and test_locate.py
WITHOUT_PATHS = {"index", "zones", "size", "sweep", "spark-archive", "completion"}
each = pytest.mark.parametrize("command", COMMANDS)


def test_every_command_is_here():
    assert {*cli.COMMANDS} == {*COMMANDS} | ALL_OR_NOTHING | WITHOUT_PATHS


NO_ROWS = ("errors", "distrusted")  # lists beside the rows


@each
def test_the_formats_say_the_same(command, lake, run):
    arguments = [command, "lake", *COMMANDS[command]]
    document = json.loads(run(*arguments, "--json").out)
    assert (document["schema_version"], document["command"], document["errors"]) == (1, command, [])
    (name,) = [key for key, value in document.items() if isinstance(value, list) and key not in NO_ROWS]
    rows = document[name]
    assert rows
    assert [json.loads(line) for line in run(*arguments, "--format", "ndjson").out.splitlines()] == rows
    lines = list(csv.DictReader(io.StringIO(run(*arguments, "--format", "csv").out)))
    assert [list(line) for line in lines] == [list(row) for row in rows]
    for format in ("json", "ndjson", "csv"):
        assert run(*arguments, "--format", format).err == "" or command == "find"  # which sums up in any format


@each
def test_a_broken_file_among_many_is_reported_and_the_rest_goes_on(command, lake, run):
    complete = json.loads(run(command, "lake", *COMMANDS[command], "--json").out)
    (lake / "lake" / "by=duckdb" / "broken.parquet").write_bytes(b"PAR1 is not all PAR1")
    (lake / "lake" / "by=spark" / "empty.parquet").write_bytes(b"")
    done = run(command, "lake", "no\nwhere", *COMMANDS[command], "--json")
    assert done.code == 2
    assert len(done.errors) == 3 == len(done.err.splitlines()) - (command == "find")
    document = json.loads(done.out)
    assert len(document["errors"]) == 3
    (name,) = [key for key, value in document.items() if isinstance(value, list) and key not in NO_ROWS]
    # prune has to read what it cannot judge; of the others' rows none is missing.
    assert [row for row in document[name] if "broken" not in str(row) and "empty" not in str(row)] == complete[name]


@each
def test_paths_come_from_stdin_too(command, lake, run):
    named = run(command, "lake/by=spark", "lake/by=duckdb", *COMMANDS[command], "--format", "csv")
    listed = run(command, "-", *COMMANDS[command], "--format", "csv", stdin="lake/by=spark\nlake/by=duckdb\n")
    assert (listed.code, listed.out) == (named.code, named.out)
    assert named.out.count("\n") > 1


@each
def test_colors_are_for_terminals_and_on_request(command, lake, run):
    assert "\x1b" not in run(command, "lake", "nowhere", *COMMANDS[command]).out
    assert "\x1b" in run(command, "lake", "nowhere", *COMMANDS[command], "--color", "always").out


@each
def test_a_name_cannot_command_a_terminal(command, lake, run):
    shutil.copy("lake/by=spark/part-0.parquet", "lake/\x1b[31m\n.parquet")
    for arguments in ([], ["--color", "never", "-v"]):
        done = run(command, "lake", "\x1b[2Jnowhere", *COMMANDS[command], *arguments)
        assert "\x1b" not in done.out + done.err


@each
def test_v_tells_where_time_went(command, lake, run):
    done = run(command, "lake", *COMMANDS[command], "-v")
    assert done.err.splitlines()[-1].startswith("time: find files ")
    assert " s, " in done.err.splitlines()[-1]


def test_readers_that_leave_and_streams_that_are_closed(lake):
    """Run all in one shell, as starting Python takes most of the time."""
    tool = f"{shlex.quote(sys.executable)} -m parquet_bloom"
    commands = {name: COMMANDS[name] for name in ("advise", "drop")}  # other tests cover the others
    lines = [f"{tool} {name} lake {shlex.join(more)} --json | true; echo {name} $?" for name, more in commands.items()]
    script = "set -o pipefail\n" + "\n".join(f"({line}) &" for line in lines) + "\nwait"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    codes = dict(line.split() for line in done.stdout.splitlines())
    assert codes == dict.fromkeys(commands, "141")

"""What all commands have in common: formats, streams, names, errors, help."""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import parquet_bloom
from parquet_bloom import cli
from parquet_bloom.cli.command import OnceCommand, wrap_command
from parquet_bloom.cli.lazy_group import suggest

PACKAGE = Path(parquet_bloom.__file__).parent
PROJECT = PACKAGE.parent

# Each writes nothing, or the same again.
WITH_PATHS = {
    "show": [],
    "advise": [],
    "embed": ["--column", "id", "--dry-run", "--replace"],
    "drop": ["--dry-run"],
    "verify": [],
    "find": ["--where", "id = 4250"],
    "prune": ["--where", "id = 4250"],
}
COMMANDS = {name: [name, "lake", *options] for name, options in WITH_PATHS.items()} | {
    "get": ["get", "lake", "--key", "id=4250"],
    "locate": ["locate", "lake", "--key", "id=4250"],
    "erase": ["erase", "lake", "--where", "id = 4250", "--dry-run"],
    "size": ["size", "--ndv", "1e6"],
    "sweep": ["sweep", "lake", "--dry-run"],
    "index append": ["index", "append", "ids.index", "lake"],
    "index lookup": ["index", "lookup", "ids.index", "--column", "id", "4250", "100"],
    "index stats": ["index", "stats", "ids.index"],
    "index compact": ["index", "compact", "ids.index"],
    "zones show": ["zones", "show", "id.zones"],
}
SUMS_UP = ("find", "get", "locate")  # in any format
each = pytest.mark.parametrize("command", WITH_PATHS)


def find_rows(document: dict[str, Any]) -> Any:
    return next(value for value in document.values() if isinstance(value, list))


@pytest.fixture
def made(lake, run) -> Path:
    """The lake, an index and zones of its ids, and a file that a killed writer has left."""
    with parquet_bloom.LakeIndex.create("ids.index", "id", lake="lake") as index:
        index.append()
    parquet_bloom.zones.build("lake", "id", "id.zones", container="parquet")
    (lake / "lake/by=spark/.part-0.parquet.0123456789abcdef.parquet_bloom.tmp").write_bytes(b"PAR1")
    return lake


@pytest.mark.ci
def test_the_formats_say_the_same(made, run):
    for command, arguments in COMMANDS.items():
        document = run(*arguments, "--json").document
        assert (document["schema_version"], document["command"], document["errors"]) == (1, command, [])
        rows = find_rows(document)
        assert rows, command
        assert run(*arguments, "--format", "ndjson").rows == rows
        lines = list(csv.DictReader(io.StringIO(run(*arguments, "--format", "csv").out)))
        assert [list(line) for line in lines] == [list(row) for row in rows]
        for format in ("json", "ndjson", "csv"):
            assert run(*arguments, "--format", format).err == "" or command in SUMS_UP


@pytest.mark.ci
def test_colors_are_for_terminals_and_on_request(made, run):
    for command, arguments in COMMANDS.items():
        assert "\x1b" not in run(*arguments).out, command
        assert "\x1b" in run(*arguments, "--color", "always").out, command
        assert "\x1b" not in run(*arguments, "--color", "always", "--format", "csv").out, command
    done = run("show", "broken.parquet", "nowhere", "--color", "always")
    assert "\x1b[1mfile" in done.out
    assert "\x1b[31m" in done.err


def test_v_tells_where_time_went(made, run):
    for command in (*WITH_PATHS, "index append", "index lookup", "index stats", "index compact"):
        done = run(*COMMANDS[command], "-v")
        first = r"open" if command.startswith("index") else "find files"
        assert re.match(rf"time: .*{first} \d+\.\d+ s, ", done.err.splitlines()[-1]), command
    assert "time:" not in run("verify", "lake").err
    told = "lake/by=spark/part-0.parquet: 2 filters, none of them bad; only their structure was checked"
    assert told in run("verify", "lake", "-v").err


DATA = ("find", "get", "locate", "index lookup")  # which print what was asked for, however quiet they are
ALONE = ("size", "index append", "index compact")  # whose rows are few, and all there is


@pytest.mark.ci
def test_a_quiet_command_prints_what_was_asked_for_alone(made, run):
    for command, arguments in COMMANDS.items():
        loud, quiet = run(*arguments), run(*arguments, "-q")
        assert (quiet.code, quiet.err) == (loud.code, ""), command
        assert quiet.out == (loud.out if command in DATA else ""), command
        assert run(*arguments, "--quiet", "--json").document.keys() == run(*arguments, "--json").document.keys()
        assert "--verbose and --quiet exclude each other" in run(*arguments, "-qv").err
    failed = run("verify", "lake", "nowhere", "-q")
    assert (failed.code, failed.out) == (2, "")
    assert failed.err == "error: nowhere: there is no such file or folder\n"
    assert run("spark-archive", "-o", "env.tar", "--without", "numpy", "--without", "pyarrow", "-q").out == ""


@pytest.mark.ci
def test_totals_are_a_line_or_a_document_without_rows(made, run):
    for command, arguments in COMMANDS.items():
        if command in ALONE:
            assert "no such option '--totals'" in run(*arguments, "--totals").err
            continue
        whole, totals = run(*arguments), run(*arguments, "--totals")
        assert totals.code == whole.code, command
        assert totals.out.count("\n") == 1, command
        assert untimed(totals.out + totals.err) == untimed(whole.err), command  # what remains is no total
        document = run(*arguments, "--json").document
        rows = next(key for key, value in document.items() if isinstance(value, list))
        assert run(*arguments, "--json", "--totals").document.keys() == document.keys() - {rows}, command
        assert "--totals is for --format table and json" in run(*arguments, "--totals", "--format", "csv").err
    done = run("find", "lake", "--where", "id = 4250", "-o", "found.csv", "--totals")
    assert done.out.startswith("45 rows in found.csv; read ")
    assert len(Path("found.csv").read_text().splitlines()) == 46


def untimed(text: str) -> str:
    """Leave out what caches change: requests and bytes."""
    return re.sub(r"\d+ requests?, [\d.]+ \w+", "", text)


@each
def test_a_broken_file_among_many_is_reported_and_the_rest_goes_on(command, lake, run):
    complete = run(command, "lake", *WITH_PATHS[command], "--json").document
    whole = Path("lake/by=spark/part-0.parquet").read_bytes()
    broken = {"broken": b"PAR1 is not all PAR1", "empty": b"", "half": whole[:-100], "text": b"longer than 12 bytes"}
    broken |= {"footless": whole[:400] + whole[-8:]}
    for name, data in broken.items():
        Path(f"lake/by=duckdb/{name}.parquet").write_bytes(data)
    done = run(command, "no\nwhere", "nothing*", "lake", *WITH_PATHS[command], "--json")
    assert done.code == 2
    assert len(done.errors) == 7 == len(done.err.splitlines()) - (command == "find")
    document = done.document
    assert {Path(error["file"]).stem for error in document["errors"]} == {*broken, "no\nwhere", "nothing*"}
    problems = [error["problem"] for error in document["errors"]]
    assert all(problem in line for problem, line in zip(problems, done.errors, strict=True))
    # prune has to read what it cannot judge; of the others' rows none is missing.
    rows = [row for row in find_rows(document) if not any(f"{name}.parquet" in str(row) for name in broken)]
    assert rows == find_rows(complete)


@each
def test_paths_come_from_stdin_too(command, lake, run):
    options = [*WITH_PATHS[command], "--format", "csv"]
    named = run(command, "lake/by=spark", "lake/by=duckdb", *options)
    listed = run(command, "-", *options, stdin="lake/by=spark\nlake/by=duckdb\n")
    assert (listed.code, listed.out) == (named.code, named.out)
    assert named.out.count("\n") > 1


@each
def test_a_name_cannot_command_a_terminal(command, lake, run):
    shutil.copy("lake/by=spark/part-0.parquet", "lake/\x1b[31m\n.parquet")
    for arguments in ([], ["--color", "never", "-v"]):
        done = run(command, "lake", "\x1b[2Jnowhere", *WITH_PATHS[command], *arguments)
        assert all(c.isprintable() or c == "\n" for c in done.out + done.err)


NAMES = [
    "with spaces and 'quotes' \"both\"",
    "[red]markup :smile: [bold]",
    "ümläut 数据 🎉 e\u0301",
    "esc\x1b[31mred\x1b]0;title\x07",
    "line\nbreak\r\ttab",
    "c1\x9b31m and \u202eright to left\u200b",
    "comma,semicolon;",
    "not utf-8 \udcff\udc80",
    "-dash",
]


@pytest.mark.ci
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_of_files_are_neither_lost_nor_obeyed(name, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    path = f"./{name}.parquet"
    parquet_bloom.write_table(pa.table({"id": [1, 2, 3]}), path, ["id"])
    Path(f"{name}.txt").write_text("no Parquet file at all")
    table = run("show", ".", "-v")
    assert table.code == 2
    assert all(c.isprintable() or c == "\n" for c in table.out + table.err)
    assert len(table.out.splitlines()) in (2, 3)  # a long name is above its row
    (error,) = table.errors
    assert error.endswith("not a Parquet file, or one cut off: it does not end in PAR1")
    if name.isprintable():
        assert f"{name}.parquet" in table.out
        assert f"{name}.txt: " in error
    for format in ("json", "ndjson"):
        shown = run("show", path, "--format", format)
        assert all(c.isprintable() or c == "\n" for c in shown.out)
        assert (shown.document["filters"][0] if format == "json" else shown.document)["file"] == path
    (row,) = csv.DictReader(io.StringIO(run("show", path, "--format", "csv").out, newline=""))
    assert row["file"] == path
    listed = run("verify", "-", "--format", "ndjson", stdin=os.fsencode(path) + b"\0")
    assert os.path.samefile(listed.document["file"], path)

    Path(f"{name}.txt").unlink()
    index = f"./{name}.index"
    assert run("index", "create", index, "--column", "id").code == 0
    assert run("index", "append", index, path, "-v").code == 0
    document = run("index", "lookup", index, "--column", "id", 2, "--json").document
    assert document["candidates"][0]["file"] == os.path.abspath(path)
    for arguments in (["lookup", index, "2"], ["stats", index], ["stats", f"{index}?"]):
        done = run("index", *arguments)
        assert all(c.isprintable() or c == "\n" for c in done.out + done.err)
    assert run("index", "check", index, "--sample", "1").code == 0
    assert run("index", "remove", index, path).code == 0


def test_names_of_columns_are_neither_lost_nor_obeyed(tmp_path, run):
    names = [name for name in NAMES if name.isprintable() or "\x1b" in name or "\n" in name]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: [1, 2, 3] for name in names}), path)
    assert run("embed", path, "--in-place", "-v", *(f"--column={name}" for name in names)).code == 0
    table = run("show", path)
    assert len(table.out.splitlines()) - len(names) in (1, 2)  # a long name of the file is above its rows
    assert all(c.isprintable() or c == "\n" for c in table.out)
    assert [row["column"] for row in run("show", path, "--json").document["filters"]] == names
    for name in names:
        assert run("show", path, "--format", "ndjson", f"--column={name}").document["column"] == name
        missing = run("verify", path, "--column", f"{name}?")
        assert all(c.isprintable() or c == "\n" for c in missing.err)


# --------------------------------------------------------------------------------------------------- bad input


def test_bad_input_is_one_line_and_changes_nothing(lake, refused):
    """A command line, and a part of what is said."""
    for command, said in (
        ("xyzzy", "no such command 'xyzzy' (see parquet-bloom --help)"),
        ("fnd lake", "no such command 'fnd'; did you mean 'find'? (see parquet-bloom --help)"),
        ("index creat lake", "no such command 'creat'; did you mean 'create'? (see parquet-bloom index --help)"),
        ("zones bild lake", "no such command 'bild'; did you mean 'build'? (see parquet-bloom zones --help)"),
        ("show", "missing argument 'PATH...' (see parquet-bloom show --help)"),
        ("show x --format yaml", "'yaml' is not one of"),
        ("show x --row-group -1", "row-group"),
        ("show --iceberg-catalog not-there --table db.events", "the catalog 'not-there' has no uri; give it in"),
        # An option that there is not, and one that is near.
        ("show x --form yaml", "no such option '--form'"),
        ("embed lake --colum id", "'--colum'; did you mean '--column'? (see parquet-bloom embed --help)"),
        ("embed lake --column_ id", "; did you mean '--column'? (see parquet-bloom embed --help)"),
        ("show lake --columns id", "; did you mean '--column'? (see parquet-bloom show --help)"),
        ("show lake --colour never", "; did you mean '--color'? (see parquet-bloom show --help)"),
        ("embed lake --inplace", "; did you mean '--in-place'? (see parquet-bloom embed --help)"),
        ("find lake --were 'id = 1'", "; did you mean '--where'? (see parquet-bloom find --help)"),
        ("find lake --case", "; did you mean '--case-sensitive' or '--case-insensitive'? (see parquet-bloom find"),
        ("index lookup x --colum id", "; did you mean '--column'? (see parquet-bloom index lookup --help)"),
        ("index lookup x --column id 5 --jsn", "'--jsn'; did you mean '--json'? (see parquet-bloom index lookup"),
        ("index lookup x --column id 5 -6x", "no such option '-6x'"),
        *(
            (
                f"{command} --on id",
                f"'--on'; did you mean '--key-column'? (see parquet-bloom {command.split()[0]} --help)",
            )
            for command in ("delete t", "erase lake", "find lake", "get lake", "locate lake", "upsert t --rows x")
        ),
        ("embed lake --on id", "'--on'; did you mean '--column'? (see parquet-bloom embed --help)"),
        ("find lake --filter 'id = 1'", "; did you mean '--where'? (see parquet-bloom find --help)"),
        ("find lake --select id", "; did you mean '--columns'? (see parquet-bloom find --help)"),
        ("sweep lake --on x", "no such option '--on' (see parquet-bloom sweep --help)"),
        ("find lake --uri x", "no such option '--uri' (see parquet-bloom find --help)"),
        ("show lake --html x", "no such option '--html' (see parquet-bloom show --help)"),
        ("size --ids 3", "no such option '--ids' (see parquet-bloom size --help)"),
        ("--jsn", "no such option '--jsn' (see parquet-bloom --help)"),
        # Of two conditions the first would count for nothing, and rows be printed that it does not select.
        ("find lake --where 'id = 4250' --where 'id = 100'", "--where is given twice, and has one value (see parq"),
        ("find lake --where='id = 4250' --limit=1 --limit 2", "--limit is given twice, and has one value"),
        ("find lake --keys a --keys b --key-column id", "--keys is given twice, and has one value"),
        ("embed lake --column id -o x --output y", "--output is given twice, and has one value"),
        ("index lookup x --column id 1 --timezone UTC --timezone UTC", "--timezone is given twice, and has one value"),
        # Targets
        ("embed x --in-place", "missing option '--column'"),
        (
            "embed x --column id",
            "no target given: add -o PATH, --in-place or --dry-run; for a Delta or Iceberg table --commit (see",
        ),
        ("embed x --column id -o y --in-place", "-o and --in-place exclude each other"),
        ("embed x --column id --in-place --fpp much", "'much' is not a valid float"),
        (
            "embed lake --column id -o -",
            "-o names a file or a folder, not standard output (./- is a file of that name)",
        ),
        ("embed lake --column id=1 --in-place", "column 'id': fpp must be a number between 0 and 1, not 1.0"),
        ("embed lake --column id --fpp 0 --in-place", "fpp must be a number between 0 and 1, not 0.0"),
        ("embed lake --column id --column id=0.1 --in-place", "column 'id': the column is named twice"),
        ("drop lake", "no target given: add -o PATH, --in-place or --dry-run"),
        ("drop lake -o x --in-place", "-o and --in-place exclude each other"),
        ("drop lake -o lake/x", "the output lies in lake, whose readers would find rows twice"),
        ("drop lake --in-place --jobs 0", "--jobs"),
        ("find lake --where 'id = 0' -o found.xls", "must end in one of .parquet, "),
        ("find lake --where 'id = 0' -o lake/by=spark/part-0.parquet", "the output is also an input"),
        ("find lake --where 'id = 0' -o lake/a.csv", "the output lies in lake, whose readers would find rows twice"),
        ("find lake --where 'id = 0' -o no/found.parquet", "there is no folder"),
        ("prune lake --where 'id = 0' --check", "--check and --asked-fpp are about the page of --html"),
        ("prune lake --where 'id = 0' --html lake/page.html", "the output lies in lake"),
        ("prune lake --where 'id = 0' --html lake/by=spark/part-0.parquet", "the output is also an input"),
        ("prune lake --where 'id = 0' --html no/page.html", "no/page.html: there is no folder"),
        ("prune lake --where 'id = 0' --html page.html --asked-fpp 1", "invalid value for '--asked-fpp'"),
        ("advise lake --html lake/page.html", "the output lies in"),
        ("locate lake --key id=1 --as iceberg", "--as is for --output FILE.parquet"),
        ("locate lake --key id=1 --as delta -o a.csv", "--as is for --output FILE.parquet"),
        ("locate lake --key id=1 --as delta -o a.parquet", "--as delta is for the files of a Delta table"),
        # Conditions
        ("prune x", "missing option '--where'"),
        ("find lake", "give --where, or --key COLUMN=VALUE, or --keys"),
        ("find lake --key id=1 --keys a.txt --key-column id", "--key and --keys exclude each other"),
        ("find lake --key id=1,tag=x", "--key is of one column here: `get` finds the rows of keys of several columns"),
        ("find lake --key id", "--key number 1 is not of the form COLUMN=VALUE"),
        ("find lake --key id=x", "column 'id': "),
        ("find lake --where 'id = 1' --column id", "'--column'; did you mean '--columns'?"),
        ("find lake --where 'id = 1' --columns '\"id'", "--columns is no list of names separated by commas"),
        ("delete t --keys a.txt --on id --dry-run", "no such option '--on'"),
        ("index create x id", "missing option '--column'"),
        ("index create x id --column id", "unexpected extra argument"),
        ("index advise lake id", "missing option '--column'"),
        ("find lake --where 'id = 1' --limit 0", "--limit"),
        ("find lake --where 'id = 1' --columns id,,tag", "a column has no name"),
        ("find lake --keys a.txt", "--keys and --key-column go together"),
        ("find lake --key-column id --where 'id = 1'", "--keys and --key-column go together"),
        ("prune lake --where 'id = '", "id =: "),
        ("prune lake --where 'id ~ 4'", ""),
        ('prune lake --where "id = \'x"', ""),
        ("prune lake --where ''", ""),
        ("prune lake --where 'nope = 1'", "column 'nope': no such column in any of 5 files"),
        ("prune broken.parquet --where 'nope = 1'", "broken.parquet: column 'nope': no such column"),
        ("prune lake --where 'id = 1' --dialect klingon", ""),
        ("prune lake --where 'id = 1' --timezone Nowhere/Land", "invalid value"),
        ("find lake --where 'ID = 3'", "--case-insensitive"),
        ("get lake --key ID=3", "column 'ID': the dataset has no such column; 'id' differs in case only"),
        ("locate lake --key ID=3", "column 'ID': the dataset has no such column; 'id' differs in case only"),
        # Numbers
        ("size", "missing option '--ndv'"),
        ("size --ndv 1.5", "'1.5' is not an integer"),
        ("size --ndv -1", "'-1' is not an integer"),
        ("size --ndv many", "'many' is not an integer"),
        ("size --ndv 1e-3", "'1e-3' is not an integer"),
        ("size --ndv 9 --fpp 0", "--fpp"),
        ("size --ndv 9 --fpp 1", "--fpp"),
        ("size --ndv 9 --fpp nan", "fpp"),
        ("advise lake --fpp 2", "fpp"),
        ("advise lake --sample -1", "--sample"),
        ("advise lake --column nobody", "column 'nobody': no such column in any file"),
        # Indexes
        ("index create x", "missing option '--column' (see parquet-bloom index create --help)"),
        ("index create x --column id --expected-values -1", "'-1' is not an integer"),
        ("index create x --column id --lake a --delta b", "--lake and --delta exclude each other"),
        ("index create x --column id --iceberg-catalog prod", "--iceberg-catalog and --table go together"),
        (
            "index create x --column id --iceberg-catalog p --table a.b --delta x",
            "--delta and --table exclude each other",
        ),
        (
            "index create x --column id --iceberg-catalog p --table a.b --lake x",
            "--lake and --table exclude each other",
        ),
        ("index create x --column id --iceberg-catalog nowhere --table a.b", "a.b: cannot read the Iceberg table"),
        ("index create x --column id --iceberg nowhere", "cannot read the Iceberg table"),
        ("index create x --column id --lake nowhere", "nowhere"),
        ("index create x --column id --column id", "columns are one or more different names"),
        ("index create x --column id --fingerprint-bits 12", "fingerprint_bits"),
        ("index create x --column id --remainder-bits 99", "remainder_bits"),
        ("index create x --column id --layout cuckoo --remainder-bits 8", "remainder_bits"),
        ("index create x --column id --layout cuckoo --fingerprint-bits 13", "fingerprint_bits"),
        ("index create broken.parquet --column id", "broken.parquet: "),
        ("index append x a --iceberg b", "a PATH and --iceberg exclude each other"),
        ("index append x a --memory-limit much", "'much' is not a size such as 512MB or 2GiB"),
        ("index append lake lake", "lake: there is no index"),
        ("index remove x", "missing argument 'PATH...'"),
        ("index lookup x --column id", "missing argument 'VALUE...'"),
        ("index lookup x --column id 5 --timezone Nowhere", "'Nowhere' is not a known time zone"),
        ("index stats nowhere", "nowhere: there is no index"),
        # Zones
        ("zones build lake -o z.arrow", "missing option '--column'"),
        ("zones build lake --column id", "missing option '-o'"),
        ("zones build --column id -o z.arrow", "missing argument 'PATH...'"),
        ("zones build lake --column id -o z.index", "z.index: the container is unknown"),
        ("zones build lake --column id -o lake/z.arrow", "lake/z.arrow: it lies in lake"),
        ("zones build lake --column id -o no/z.arrow", "no/z.arrow: there is no folder"),
        ("zones build lake --column id -o z.arrow --rows-per-zone 0", "must be an integer of at least 1, got 0"),
        ("zones build lake --column id -o z.arrow --rows-per-zone 1.5", "'1.5' is not an integer"),
        ("zones build lake --column id -o z.arrow --fpp 1", "the probability must be between 0 and 1"),
        ("zones build lake --column id -o z.arrow --fpp nan", "the probability must be between 0 and 1"),
        ("zones build lake --column id -o z.arrow --container orc", "'orc' is not one of"),
        ("zones show nowhere", "nowhere: cannot open: No such file"),
        ("zones show lake", "lake: the folder is not a Lance dataset"),
        ("zones show broken.parquet", "broken.parquet: it is not a zone index: no columns of the name fragment_id"),
        ("prune lake --where 'id = 1' --zones none.parquet", "none.parquet"),
        # Archives
        ("spark-archive", "missing option '-o' / '--output' (see parquet-bloom spark-archive --help)"),
        ("spark-archive -o env.zip", "env.zip: the name of an archive must end in .tar.gz, .tgz or .tar"),
        ("spark-archive -o no/env.tar", f"no/env.tar: there is no folder {lake}/no"),
        ("spark-archive -o e.tar --without nump", "'nump' is to be left out, but no packed distribution needs it"),
        (
            "spark-archive -o e.tar --extra s4",
            "there is no extra 's4'; there are: adapters, bench, delta, dialects, docs, ",
        ),
    ):
        assert said in refused(*shlex.split(command)), command


def test_options_that_may_be_repeated(lake, run):
    assert run("size", "--ndv", "5", "--ndv", "6").code in (0, 2)
    assert run("show", "lake", "--format", "csv", "--color", "never", "--format", "json", "--color", "always").code == 0
    assert run("show", "lake", "--column", "id", "--column", "tag", "--json", "--json").code == 0


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


# ---------------------------------------------------------------------------------------------------------- help


def find_commands(group: click.Group = cli.tool, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield the names of all commands and groups, and what they are."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield before + name, command
        if isinstance(command, click.Group):
            yield from find_commands(command, f"{before}{name} ")


THERE = dict(find_commands())
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def options_of(command: click.Command) -> set[str]:
    return {"--help", "--help-all"} | {
        name for option in command.params for name in (*option.opts, *option.secondary_opts)
    }


@pytest.mark.parametrize("name", ["", "index", "zones", "completion"])
def test_help_all_is_help_where_that_shows_all(name, run):
    done = run(*name.split(), "--help-all")
    assert done == run(*name.split(), "--help")
    assert done.out.startswith("Usage: ")


def test_every_command_is_here():
    # Those that commit to a table are in test_tables.py.
    others = {"delete", "upsert", "index", "zones", "spark-archive", "completion"}
    assert {*cli.COMMANDS} == {name for name in COMMANDS if " " not in name} | others


@pytest.mark.parametrize("name", ["", *THERE])
def test_the_short_help_of_every_command_fits_a_screen(name, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = run(*name.split(), "--help")
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert run(*name.split(), "-h") == done
    assert len(lines) <= 45
    assert [line for line in lines if len(line) > 80] == []
    assert lines[0].startswith(f"Usage: parquet-bloom {name}".rstrip())
    examples = lines[lines.index("  Example:") + 1 :]
    assert examples[0].startswith(f"    parquet-bloom {name}".rstrip())
    command = THERE.get(name, cli.tool)
    if not isinstance(command, OnceCommand):
        return
    assert {"Output:", "Help:"} <= {*lines}
    whole = run(*name.split(), "--help-all").out
    titles = re.findall(r"^[A-Z].*:$", whole, re.MULTILINE)
    assert [title for title in re.findall(r"^[A-Z].*:$", done.out, re.MULTILINE) if title not in titles] == []
    # Whatever a call has to have is shown; what is not is counted.
    assert {option.opts[-1] for option in command.params if option.required} - {
        *done.out.split(),
        *done.out.split(","),
    } <= {option.opts[-1] for option in command.params if option.param_type_name == "argument"}
    more = re.search(r"Show all: (\d+) more options", done.out)
    options = [option for option in command.params if option.param_type_name == "option"]
    shown = [option for option in options if re.search(rf"^ .*{option.opts[-1]}\b", done.out, re.MULTILINE)]
    assert len(options) - len(shown) == int(more[1] if more else 0)


@pytest.mark.parametrize("name", ["", *THERE])
def test_the_help_of_every_command_is_legible(name, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    is_grouped = isinstance(THERE.get(name, cli.tool), OnceCommand)
    done = run(*name.split(), "--help-all" if is_grouped else "--help")
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert [line for line in lines if len(line) > 80] == []
    assert "\\b" not in done.out
    assert "\b" not in done.out
    assert lines[0].startswith(f"Usage: parquet-bloom {name}".rstrip())
    examples = lines[lines.index("  Example:") + 1 :]
    assert examples[0].startswith(f"    parquet-bloom {name}".rstrip())
    assert name == "" or any(line.startswith("  Exit codes: 0 ") for line in lines)
    # Columns of a table that were wrapped as if they were a sentence have spaces in the middle of its lines.
    end = next(number for number, line in enumerate(lines[1:], 1) if re.match("[A-Z].*:$", line))
    assert [line for line in lines[1:end] if re.search(r"\S {2,}\S.*\S {2,}\S", line)] == []
    command = THERE.get(name, cli.tool)
    assert [one.name for one in command.params if one.param_type_name != "argument" and not one.help] == []
    # Options that it names are its own, but for those of a command that the text names as well.
    if name not in ("", "completion"):
        shown = " ".join(re.sub(r"(?<=\w)-\n +", "-", done.out).split())
        for option in {*OPTION.findall(shown)} - options_of(command):
            assert any(option in options_of(THERE[other]) and other in shown for other in THERE), option


def test_help_lists_the_commands_and_imports_none(run):
    for group in ([], ["index"]):
        module = import_module("parquet_bloom.cli.commands.index_command") if group else cli
        shown = run(*group, "--help")
        assert shown.code == 0
        for command, (_, text) in module.COMMANDS.items():
            assert re.search(rf"^  {command} +{re.escape(text)}$", shown.out, re.MULTILINE)
        without = run(*group)
        assert (without.code, without.out) == (2, "")
        assert without.err.startswith(" ".join(["Usage: parquet-bloom", *group]))
        code = f"import sys; from parquet_bloom import cli; cli.main([*{group}, '--help']); print(*sys.modules)"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        loaded = out.splitlines()[-1].split()
        commands = {name for name in loaded if re.fullmatch(r"parquet_bloom\.cli\.commands\.\w+", name)}
        assert commands == {f"parquet_bloom.cli.commands.{name}_command" for name in group}
        assert not {"rich.progress", "rich.console"} & {*loaded}
    assert run("--version").out == f"parquet-bloom {parquet_bloom.__version__}\n"


def test_a_line_of_shell_is_broken_before_options_alone():
    assert wrap_command("parquet-bloom show lake/ --json") == ["parquet-bloom show lake/ --json"]
    line = f"parquet-bloom find lake/ --where \"a = '- {'x' * 40} -'\" --limit 5 --format ndjson | jq .url"
    assert wrap_command(line) == [
        "parquet-bloom find lake/ \\",
        f"    --where \"a = '- {'x' * 40} -'\" --limit 5 \\",
        "    --format ndjson | jq .url",
    ]
    assert " ".join(part.strip(" \\") for part in wrap_command(line)) == line


def test_what_is_suggested_is_near():
    for command in THERE.values():
        names = [name for option in command.params for name in option.opts if name.startswith("--")]
        for name in names:
            missing = name[:3] + name[4:]
            if missing not in names and len(name) > 6:
                assert repr(name) in suggest(missing, names)
        assert suggest("--zzz", names) == suggest("--", names) == ""


def texts(path: Path) -> Iterator[str]:
    """Yield the string literals of a module that are not docstrings, those of an f-string or a concatenation in one."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            parts = [part for part in node.values if isinstance(part, ast.Constant)]
            skipped.update(map(id, parts))
            yield "{}".join(str(part.value) for part in parts)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


@pytest.mark.ci
def test_options_and_commands_in_texts_exist():
    """`parquet_bloom.cli` has texts of options; other folders have errors that name some."""
    of_others = {
        "cli/commands/archive_command.py": {"--archives", "--conf"},  # of spark-submit, which it prints
        "tables/iceberg/iceberg_table.py": {"--uri"},  # of pyiceberg, whose message is recognised by it
    }
    options = {"--version"}.union(*map(options_of, THERE.values()))
    quoted = re.compile(r"`(?:parquet-bloom )?([a-z][a-z-]*)(?: ([a-z-]+))?(?: [A-Z-][^`]*)?`")
    num_options = num_commands = 0
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        found = list(texts(path))
        named = {option for text in found for option in OPTION.findall(text)}
        assert named - of_others.get(name, set()) <= options, name
        num_options += len(named)
        if not name.startswith(("cli/", "file/", "lake/", "zones/", "orc/", "tables/")):
            continue
        for text in found:
            for first, second in quoted.findall(text):
                if "parquet-bloom" in text or first in THERE:
                    num_commands += 1
                    assert first in THERE, (name, text)
                    if isinstance(THERE[first], click.Group) and second:
                        assert f"{first} {second}" in THERE, (name, text)
    assert (num_options > 80, num_commands >= 3) == (True, True)


# ------------------------------------------------------------------------------------------------ ways to call them


@pytest.mark.ci
def test_python_m_and_the_tool_are_the_command_line(lake, spawn):
    shown = spawn("show", "lake", "--json")
    assert shown.code == 0
    command = [sys.executable, PROJECT / "tools" / "inspect_bloom.py", "lake", "--json"]
    script = subprocess.run(command, capture_output=True, text=True)
    assert (script.returncode, script.stdout, script.stderr) == (0, shown.out, "")


def test_main_returns_the_exit_code(lake, capfd):
    assert cli.main(["verify", "lake"]) == 0
    assert cli.main(["verify", "broken.parquet"]) == 1
    assert cli.main(["verify", "missing.parquet"]) == 2
    assert capfd.readouterr().err.splitlines()[-2].startswith("error: missing.parquet: ")


def test_sizes_are_the_models(run):
    for ndv in ("1000000", "1e6", "1_000_000", "1.0E+6", "0.1e7"):
        document = run("size", "--ndv", ndv, "--fpp", "0.003", "--json").document
        (row,) = [row for row in document["sizes"] if row["asked"]]
        assert (document["ndv"], document["fpp"]) == (row["ndv"], row["fpp"]) == (10**6, 0.003)
        assert row["num_bytes"] == parquet_bloom.size_for(10**6, 0.003)
        assert row["exact_bytes"] == parquet_bloom.size_for(10**6, 0.003, power_of_two=False)
        assert row["real_fpp"] == pytest.approx(parquet_bloom.fpp_for(10**6, row["num_bytes"]))
        near = {(10**6, 0.01), (10**7, 0.003), (10**5, 0.003)}
        assert {(row["ndv"], row["fpp"]) for row in document["sizes"]} > near
    (row,) = [row for row in run("size", "--ndv", "0", "--json").document["sizes"] if row["asked"]]
    assert row["num_bytes"] == 32
    done = run("size", "--ndv", "1e9")
    assert (done.code, done.err) == (0, "no filter is that large; with 134,217,728 bytes the fpp is 0.995\n")


def test_spark_archive_prints_settings_to_be_copied(tmp_path, run):
    """The archive itself is tested with Spark."""
    path = tmp_path / "a b,#%'ü.tar"
    small = [part for name in ("numpy", "pyarrow", "obstore", "rich") for part in ("--without", name)]
    result = run("spark-archive", "-o", path, *small)
    assert result.code == 0
    table, submit, session = result.out.rstrip("\n").split("\n\n")
    assert [line.split()[0] for line in table.splitlines()] == [
        *("distribution", "parquet-bloom", "click", "pyroaring", "thrift")
    ]
    uri = f"file://{tmp_path}/a%20b%2C%23%25%27%C3%BC.tar#environment"  # which Spark and a shell read alike
    assert f"--archives '{uri}' \\\n" in submit
    assert shlex.split(submit.replace("\\\n", "")) == [
        *("spark-submit", "--archives", uri, "--conf", "spark.executorEnv.PYTHONPATH=./environment", "...")
    ]
    assert f'    .config("spark.archives", "{uri}")\n' in session
    compile(session, "<session>", "exec")
    size = path.stat().st_size
    assert result.err.startswith(f"{path}: {size:,} bytes, unpacked ")
    assert f"; for Python {sys.version_info.major}.{sys.version_info.minor} on " in result.err

    result = run("spark-archive", "--output", tmp_path / "env.tar", "--json", *small)
    document = json.loads(result.out)
    assert (result.code, result.err) == (0, "")
    assert (document["output"], document["num_bytes"]) == (f"{tmp_path}/env.tar", (tmp_path / "env.tar").stat().st_size)
    assert document["settings"]["spark.archives"] == f"{tmp_path}/env.tar#environment"
    assert set(document["made_for"]) == {"python", "implementation", "platform", "libc"}
    assert document["unpacked_bytes"] == sum(row["bytes"] for row in document["distributions"])
    assert set(document["distributions"][0]) == {"name", "version", "files", "bytes", "missing"}

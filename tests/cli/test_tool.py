"""What all commands share: help, formats, streams, signals, terminals."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import cli

COMMANDS = list(cli.COMMANDS)
PROJECT = Path(__file__).resolve().parents[2]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

# ------------------------------------------------------------------------------------------------------------
# Help and usage
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_every_option_and_gives_an_example(command, run):
    result = run(command, "--help")
    assert (result.code, result.err) == (0, "")
    assert "Exit codes:" in result.out
    assert f"Example:\n    parquet-bloom {command} " in result.out
    made = cli.tool.get_command(None, command)
    for parameter in made.params[1:]:
        assert parameter.help, parameter.name


def test_help_lists_the_commands(run):
    result = run("--help")
    assert result.code == 0
    for command, text in cli.COMMANDS.items():
        assert re.search(rf"^  {command} +{re.escape(text)}$", result.out, re.MULTILINE)


def test_help_imports_no_command():
    code = "import sys; from parquet_bloom import cli; cli.main(['--help']); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = out.splitlines()[-1].split()
    assert not [
        name for name in loaded if name.startswith("parquet_bloom.cli.") and name.rpartition(".")[2] in COMMANDS
    ]
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
        (["embed", "x", "--column", "id"], "say where to: -o PATH, --in-place, or --dry-run"),
        (["embed", "x", "--column", "id", "-o", "y", "--in-place"], "-o and --in-place exclude each other"),
        (["embed", "x", "--column", "id", "--in-place", "--fpp", "much"], "'much' is not a valid float"),
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


# ------------------------------------------------------------------------------------------------------------
# Paths
# ------------------------------------------------------------------------------------------------------------


def files_of(result: Any) -> list[str]:
    return list(dict.fromkeys(json.loads(line)["file"] for line in result.out.splitlines()))


def test_paths_are_files_folders_patterns_and_lists(lake, run):
    spark, duckdb = "lake/by=spark/part-0.parquet", "lake/by=duckdb/part-0.parquet"
    show = ("show", "--format", "ndjson", "--column", "id")
    assert files_of(run(*show, spark)) == [spark]
    assert files_of(run(*show, "lake/*/part-0.parquet")) == sorted(
        f"lake/by={writer}/part-0.parquet" for writer in ("datafusion", "duckdb", "pyarrow", "spark")
    )
    assert files_of(run(*show, "-", stdin=f"{spark}\n\n{duckdb}\r\n")) == [spark, duckdb]
    assert files_of(run(*show, "-", stdin=f"{spark}\0{duckdb}\0")) == [spark, duckdb]
    assert files_of(run(*show, duckdb, "-", stdin=spark)) == [duckdb, spark]


def test_a_file_found_twice_is_shown_once(lake, run):
    once = run("show", "lake", "--format", "ndjson")
    again = run("show", "lake", "lake/by=spark", "./lake/by=duckdb/part-0.parquet", "lake/*/*", "--format", "ndjson")
    assert again == once


def test_a_list_holds_names_not_patterns(lake, run):
    os.rename("lake/by=spark/part-0.parquet", "lake/part[0].parquet")
    os.rename("lake/by=duckdb/part-0.parquet", "lake/part0.parquet")
    assert files_of(run("show", "-", "--format", "ndjson", stdin="lake/part[0].parquet")) == ["lake/part[0].parquet"]
    os.remove("lake/part[0].parquet")
    result = run("show", "-", stdin="lake/part[0].parquet")
    assert (result.code, result.out) == (2, "")
    assert result.errors == ["error: lake/part[0].parquet: there is no such file or folder"]


@pytest.fixture
def mixed(lake: Path) -> Path:
    """A folder with good files, and with some that are none."""
    Path("lake/a.txt").write_text("not a Parquet file, but longer than twelve bytes")
    Path("lake/empty.parquet").touch()
    whole = Path("lake/by=spark/part-0.parquet").read_bytes()
    Path("lake/cut.parquet").write_bytes(whole[:-100])
    Path("lake/footless.parquet").write_bytes(whole[:400] + whole[-8:])
    return lake


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["verify", "--data"],
        ["embed", "--column", "id", "--in-place", "--replace"],
        ["embed", "--column", "id", "--dry-run", "--replace"],
        ["prune", "--where", "id = 4250"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_broken_files_are_reported_and_the_rest_goes_on(arguments, mixed, run):
    result = run(*arguments, "nowhere", "nothing*", "lake", "--json")
    assert result.code == 2
    assert sorted(line.split(":")[1].strip() for line in result.errors) == [
        "lake/a.txt",
        "lake/cut.parquet",
        "lake/empty.parquet",
        "lake/footless.parquet",
        "nothing*",
        "nowhere",
    ]
    document = json.loads(result.out)
    assert document["totals"]["files"] == 5
    assert sorted(error["file"] for error in document["errors"]) == sorted(
        line.split(":")[1].strip() for line in result.errors
    )
    for line, error in zip(result.errors, document["errors"], strict=True):
        assert error["problem"] in line


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["show"], 0),
        (["verify"], 0),
        (["embed", "--column", "id", "--in-place"], 0),
        (["embed", "--column", "id", "-o", "out"], 0),
        (["prune", "--where", "id = 1"], 1),
    ],
)
def test_an_empty_folder(arguments, code, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    result = run(*arguments, "empty")
    assert (result.code, result.out) == (code, "")
    assert result.err.splitlines()[0] == "empty: no files in it"
    rows = json.loads(run(*arguments, "empty", "--json").out)
    assert rows["totals"]["files"] == 0


@pytest.mark.parametrize("num_row_groups", [0, 1])
def test_files_without_rows(num_row_groups, tmp_path, run):
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, pa.schema([("id", pa.int64())])) as writer:
        for _ in range(num_row_groups):
            writer.write_table(pa.table({"id": pa.array([], pa.int64())}))
    assert pq.read_metadata(path).num_row_groups == num_row_groups
    before = path.read_bytes()
    assert run("show", path).code == 0
    assert run("verify", path, "--data").code == 0
    assert run("prune", path, "--where", "id = 1").code == 1
    assert run("embed", path, "--column", "id", "--in-place").code == 0
    assert path.read_bytes() == before
    assert run("embed", path, "--column", "id", "-o", tmp_path / "b.parquet").code == 0
    assert (tmp_path / "b.parquet").read_bytes() == before


# ------------------------------------------------------------------------------------------------------------
# Names that mean harm
# ------------------------------------------------------------------------------------------------------------

NAMES = [
    "with spaces and 'quotes' \"both\"",
    "[red]markup[/red] :smile:",
    "ümläut 数据 🎉 e\u0301",
    "esc\x1b[31mred\x1b]0;title\x07",
    "line\nbreak\r\ttab",
    "c1\x9b31m and \u202eright to left\u200b",
    "comma,semicolon;",
    "not utf-8 \udcff\udc80",
    "-dash",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_of_files_are_neither_lost_nor_obeyed(name, tmp_path, monkeypatch, spawn):
    monkeypatch.chdir(tmp_path)
    path = f"./{name}.parquet"
    parquet_bloom.write_table(pa.table({"id": [1, 2, 3]}), path, ["id"])
    Path(f"{name}.txt").write_text("no Parquet file at all")
    table = spawn("show", ".", "-v")
    assert table.code == 2
    assert all(c.isprintable() or c == "\n" for c in table.out + table.err)
    assert len(table.out.splitlines()) == 2
    (error,) = table.errors
    assert error.endswith("not a Parquet file, or one cut off: it does not end in PAR1")
    if name.isprintable():
        assert f"{name}.parquet" in table.out
        assert f"{name}.txt: " in error

    for format in ("json", "ndjson"):
        shown = spawn("show", path, "--format", format)
        assert all(c.isprintable() or c == "\n" for c in shown.out)
        document = json.loads(shown.out)
        assert (document["filters"][0] if format == "json" else document)["file"] == path
    (row,) = csv.DictReader(io.StringIO(spawn("show", path, "--format", "csv").out, newline=""))
    assert row["file"] == path
    listed = spawn("verify", "-", "--format", "ndjson", input=os.fsencode(path) + b"\0")
    assert os.path.samefile(json.loads(listed.out)["file"], path)


def test_names_of_columns_are_neither_lost_nor_obeyed(tmp_path, run):
    names = [name for name in NAMES if name.isprintable() or "\x1b" in name or "\n" in name]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: [1, 2, 3] for name in names}), path)
    result = run("embed", path, "--in-place", "-v", *(f"--column={name}" for name in names))
    assert result.code == 0
    table = run("show", path)
    assert len(table.out.splitlines()) == len(names) + 1
    assert all(c.isprintable() or c == "\n" for c in table.out)
    assert [row["column"] for row in json.loads(run("show", path, "--json").out)["filters"]] == names
    for name in names:
        shown = run("show", path, "--format", "ndjson", f"--column={name}")
        assert json.loads(shown.out)["column"] == name
        missing = run("verify", path, "--column", f"{name}?")
        assert all(c.isprintable() or c == "\n" for c in missing.err)


# ------------------------------------------------------------------------------------------------------------
# Streams and signals
# ------------------------------------------------------------------------------------------------------------


def test_a_reader_that_leaves_is_no_error(lake):
    command = [sys.executable, "-m", "parquet_bloom", "show", "-", "--format", "ndjson"]
    for i in range(3000):
        os.link("lake/by=spark/part-0.parquet", f"lake/{i}.parquet")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"lake\n")
        process.stdin.close()
        assert json.loads(process.stdout.readline())["row_group"] == 0
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


@pytest.mark.parametrize("arguments", [["show", "lake"], ["show", "lake", "--json"], ["show", "--help"], ["--help"]])
def test_a_full_disk_is_one_line(arguments, lake, spawn):
    with open("/dev/full", "wb") as full:
        result = spawn(*arguments, stdout=full)
    assert (result.code, result.err) == (2, "error: cannot write to standard output: No space left on device\n")


def test_closed_streams(lake):
    command = f"{sys.executable} -m parquet_bloom"
    for rest, code in (
        ("verify lake >&-", 0),
        ("verify lake 2>&-", 0),
        ("verify nowhere >&- 2>&- <&-", 2),
        ("verify - <&-", 0),
    ):
        result = subprocess.run(f"{command} {rest}", shell=True, capture_output=True, timeout=60)
        assert result.returncode == code, rest
        assert b"Traceback" not in result.stderr
        assert b"Exception" not in result.stderr


def test_the_locale_does_not_matter(tmp_path, spawn, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parquet_bloom.write_table(pa.table({"größe": [1]}), "a.parquet", ["größe"])
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    assert json.loads(spawn("show", "a.parquet", "--json", env=environment).out)["filters"][0]["column"] == "größe"
    assert "gr\\xf6\\xdfe" in spawn("show", "a.parquet", env=environment).out


STOPPED = """
import os, signal, sys
from parquet_bloom import cli
from parquet_bloom.file import embed
written = embed.write_filter
def stop(new, *rest):  # in the middle of the second file
    written(new, *rest)
    if rest[-1].path.endswith("b.parquet"):
        os.kill(os.getpid(), signal.{signal})
embed.write_filter = stop
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("name", "code", "said"), [("SIGINT", 130, "interrupted\n"), ("SIGTERM", 143, "")])
@pytest.mark.parametrize("format", ["table", "ndjson"])
def test_interrupted_files_are_whole(name, code, said, format, tmp_path):
    for letter in "abc":
        pq.write_table(pa.table({"id": range(1000)}), tmp_path / f"{letter}.parquet", row_group_size=100)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result = subprocess.run(
        [sys.executable, "-c", STOPPED.format(signal=name), "embed", "--in-place", "--column", "id"]
        + ["--format", format, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stderr) == (code, said)
    assert "a.parquet" in result.out if hasattr(result, "out") else "a.parquet" in result.stdout
    assert "b.parquet" not in result.stdout
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert after.keys() == before.keys()
    assert after["a.parquet"] != before["a.parquet"]
    assert parquet_bloom.verify(tmp_path / "a.parquet", data=True).ok
    assert (after["b.parquet"], after["c.parquet"]) == (before["b.parquet"], before["c.parquet"])


def test_a_bug_is_one_line_and_with_v_a_traceback(lake, monkeypatch, run):
    from parquet_bloom.cli import show

    def fail(*_: object) -> None:
        raise RuntimeError("it was\nnot meant")

    monkeypatch.setattr(sys.modules["parquet_bloom.cli.show"], "_rows", fail)
    assert show is not None
    result = run("show", "lake")
    assert (result.code, result.out) == (2, "")
    assert result.err == "error: a bug, please report it with what -v shows: RuntimeError: it was not meant\n"
    from click.testing import CliRunner

    verbose = CliRunner().invoke(cli.tool, ["show", "lake", "-v"])
    assert "Traceback (most recent call last):" in verbose.stderr
    assert verbose.stderr.splitlines()[-1] == "error: a bug, please report it: RuntimeError: it was not meant"


def test_v_tells_each_file_and_where_time_went(lake, run):
    result = run("verify", "lake", "-v")
    assert "lake/by=spark/part-0.parquet: 2 filters, all good\n" in result.err
    assert re.fullmatch(r"time: find files \d+\.\d{3} s, verify \d+\.\d{3} s", result.err.splitlines()[-1])
    assert "time:" not in run("verify", "lake").err


# ------------------------------------------------------------------------------------------------------------
# Terminals
# ------------------------------------------------------------------------------------------------------------


def on_terminal(*arguments: str, columns: int = 80, patience: float | None = None, **environment: str) -> str:
    """All that a command prints when all its streams are a terminal, with escape sequences."""
    code = "import sys; from parquet_bloom.cli import main, progress\n"
    if patience is not None:
        code += f"progress.PATIENCE = {patience}\n"
    code += "sys.exit(main())"
    pid, terminal = pty.fork()
    if pid == 0:
        for name in ("NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR"):
            os.environ.pop(name, None)
        os.environ.update({"TERM": "xterm-256color"} | environment)
        os.execv(sys.executable, [sys.executable, "-c", f"input()\n{code}", *arguments])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    attributes = termios.tcgetattr(terminal)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    os.write(terminal, b"\n")  # now that the size is known, it may start
    said = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
            said += piece
    else:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)
    return said.decode().replace("\r\n", "\n")


def test_a_wide_terminal_shows_all_columns(lake):
    text = on_terminal("show", "lake", columns=250, NO_COLOR="1")
    assert "\x1b" not in text
    assert text.splitlines()[0].split() == (
        "file row group column type offset length bytes algorithm hash compression blocks fill fpp ndv problem".split()
    )


def test_a_narrow_terminal_leaves_out_what_says_nothing_and_cuts_nothing(lake):
    text = on_terminal("show", "lake", "broken.parquet", columns=110, NO_COLOR="1")
    assert max(map(len, text.splitlines())) <= 110
    assert "algorithm" not in text
    assert text.count("lake/by=spark/part-0.parquet\n") == 1  # above its rows
    assert "header says 128 bytes, the filter's length leaves 160" in " ".join(text.split())
    narrow = on_terminal("show", "broken.parquet", columns=40, NO_COLOR="1")
    assert "".join("header says 128 bytes, the filter's length leaves 160".split()[:3]) in "".join(narrow.split())


def test_colors(lake, run, spawn):
    assert "\x1b[1mfile\x1b[0m" in on_terminal("show", "lake", "broken.parquet")
    assert "\x1b[31mheader says" in on_terminal("show", "broken.parquet", columns=250)
    assert "\x1b[31m\x1b[1merror:\x1b[0m nowhere: " in on_terminal("show", "nowhere")
    for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_terminal("show", "broken.parquet", "nowhere", **plain)
    assert "\x1b" not in on_terminal("show", "broken.parquet", "nowhere", "--color", "never")
    assert "\x1b[31m" in on_terminal("show", "broken.parquet", "nowhere", "--color", "always", NO_COLOR="1")
    piped = spawn("show", "broken.parquet", "nowhere")
    assert "\x1b" not in piped.out + piped.err
    piped = spawn("show", "broken.parquet", "nowhere", "--color", "always")
    assert "\x1b[1mfile" in piped.out
    assert "\x1b[31m" in piped.err
    for format in ("json", "ndjson", "csv"):
        assert "\x1b" not in spawn("show", "broken.parquet", "--color", "always", "--format", format).out


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Three files that take a moment."""
    for letter in "abc":
        table = pa.table({"id": pa.array(range(400_000), pa.int64())})
        pq.write_table(table, tmp_path / f"{letter}.parquet", row_group_size=20_000, compression="none")
    return tmp_path


def test_the_bar_is_shown_on_terminals_and_taken_away(large):
    arguments = ("embed", str(large), "nowhere", "--column", "id", "--column", "nope", "--dry-run")
    text = on_terminal("embed", str(large), "--column", "id", "--dry-run", patience=0, columns=100)
    assert re.search(r"\x1b\[2Kembed .*━.* \d/3 files", text)
    last = text[text.rindex("files") :]
    assert "\x1b[1A\x1b[2K" in text[text.rindex("━") :]  # the line is cleared again
    assert "would embed 60 filters in 3 files" in last
    errors = on_terminal(*arguments, patience=0, columns=100)
    assert len(re.findall(r"error:\S* \S+: column 'nope': no such column", errors)) == 3


def test_no_bar_without_need(large, spawn, run):
    assert "━" not in on_terminal("verify", str(large), patience=60)
    piped = spawn("embed", large, "--column", "id", "--dry-run")
    assert "━" not in piped.out + piped.err
    # Rows that are printed at once would run into it.
    assert "━" not in on_terminal("embed", str(large), "--column", "id", "--dry-run", "--format", "csv", patience=0)


def test_csv_on_a_terminal_commands_nothing(tmp_path):
    path = tmp_path / "\x1b[31m.parquet"
    parquet_bloom.write_table(pa.table({"id": [1]}), path, ["id"])
    assert "\\x1b[31m" in on_terminal("show", str(path), "--format", "csv")
    assert not ESCAPE.search(on_terminal("show", str(path), "--format", "csv"))

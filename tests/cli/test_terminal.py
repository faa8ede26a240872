"""Output on a terminal: widths, colors, the progress bar."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.processes.on_a_terminal import ESCAPE, on_terminal

import parquet_bloom


@pytest.mark.ci
@pytest.mark.parametrize(
    "command", ["show lake broken.parquet", "advise lake broken.parquet", "find lake --where id=4250"]
)
def test_tables_are_alike_on_terminals_of_any_width_and_in_pipes(command, lake, run):
    piped = run(*command.split()).out
    assert len(piped.splitlines()) > 10
    assert max(map(len, piped.splitlines())) < 120
    for columns in (40, 100, 250):
        shown = on_terminal(*command.split(), columns=columns, NO_COLOR="1", COLUMNS=str(columns))
        assert ESCAPE.sub("", shown).startswith(piped), columns


def test_long_cells_are_printed_below_their_row_and_sentences_wrapped(tmp_path, run):
    name = "identifier_" * 4
    prices = pa.array([{"of_one": 1.5}, {"of_one": 2.5}])
    for letter in ("a", "b"):
        pq.write_table(pa.table({"prices": prices, name: [1, 2]}), tmp_path / f"{letter}.parquet")
    parquet_bloom.embed(tmp_path / "a.parquet", name)
    lines = run("advise", tmp_path).out.partition("\nto ")[0].splitlines()
    assert max(map(len, lines)) < 120
    assert lines[0].split()[-1] == "absent"
    assert [line.strip() for line in lines if re.match(" +asked by", line)] == [
        "asked by: DuckDB, Spark",
        "asked by: all",
    ]


def test_a_table_leaves_out_what_says_nothing_and_cuts_nothing(lake, run):
    text = run("show", "lake", "broken.parquet").out
    assert "algorithm" not in text
    assert text.count("lake/by=spark/part-0.parquet\n") == 1  # above its rows
    assert "header says 128 bytes, the filter's length leaves 160" in " ".join(text.split())


@pytest.mark.ci
def test_colors(lake):
    assert "\x1b[1mcolumn\x1b[0m" in on_terminal("show", "lake", "broken.parquet")
    assert "\x1b[31mheader says" in on_terminal("show", "broken.parquet", columns=250)
    assert "\x1b[31m\x1b[1merror:\x1b[0m nowhere: " in on_terminal("show", "nowhere")
    assert "\x1b" not in on_terminal("show", "broken.parquet", "nowhere", NO_COLOR="1")
    assert "\x1b" not in on_terminal("show", "broken.parquet", "nowhere", TERM="dumb")
    assert "\x1b" not in on_terminal("show", "broken.parquet", "nowhere", "--color", "never")
    assert "\x1b[31m" in on_terminal("show", "broken.parquet", "nowhere", "--color", "always", NO_COLOR="1")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Three files that take a moment."""
    for letter in "abc":
        table = pa.table({"id": pa.array(range(400_000), pa.int64())})
        pq.write_table(table, tmp_path / f"{letter}.parquet", row_group_size=20_000, compression="none")
    return tmp_path


@pytest.mark.ci
def test_the_bar_is_shown_on_terminals_and_taken_away(large):
    arguments = ("embed", str(large), "nowhere", "--column", "id", "--column", "nope", "--dry-run")
    text = on_terminal("embed", str(large), "--column", "id", "--dry-run", patience=0, columns=100)
    assert re.search(r"\x1b\[2Kembed .*━.* \d/3 files", text)
    last = text[text.rindex("━") :]
    assert "\x1b[1A\x1b[2K" in last  # the line is cleared again
    assert "\nwould embed 60 filters in 3 files, " in last
    errors = on_terminal(*arguments, patience=0, columns=100)
    assert (
        len(re.findall(r"error:\S* \S+: column 'nope': no such column; .* \(the same in 2 more files\)", errors)) == 1
    )


@pytest.mark.ci
def test_a_recording_of_the_bar(large):
    """Frame by frame, the bar appears, moves, and makes room for the result."""
    index = str(large.parent / "index")
    parquet_bloom.LakeIndex.create(index, ["id"], lake=large).close()
    for what, *arguments, shown in (
        ("advise", str(large), "--sample", "60", "3 files, 60 row groups"),
        ("embed", str(large), "--column", "id", "--in-place", "--jobs", "2", "embedded 60 filters in 3 files"),
        ("verify", str(large), "--data", "60 filters in 3 files"),
        (
            "index append",
            index,
            # Of each file, values whose hashes begin with the same bits count as one.
            "added +indexed again +unchanged +failed +values +segments merged\n +3 +0 +0 +0 +1,(?:199,99.|200,000) ",
        ),
        ("index check", index, "--sample", "3", "nothing is wrong; 3 files read again, 1,200,000 values looked up"),
    ):
        text = on_terminal(*what.split(), *arguments, patience=0, columns=100, NO_COLOR="1")
        frames = re.findall(rf"{what} +[━╸╺ ]+ (\d)/[34] files", text)  # a check counts the index's part as well
        assert frames
        assert frames == sorted(frames)
        assert re.search(rf"[\r\n]{shown}", ESCAPE.sub("", text[text.rindex("━") :])), what
    for arguments in (["verify", str(large)], ["index", "stats", index]):
        assert "━" not in on_terminal(*arguments, patience=60, columns=100)


@pytest.mark.ci
def test_no_bar_without_need(large, spawn):
    piped = spawn("embed", large, "--column", "id", "--dry-run")
    assert "━" not in piped.out + piped.err
    # Rows that are printed at once would run into it.
    assert "━" not in on_terminal("embed", str(large), "--column", "id", "--dry-run", "--format=csv", patience=0)


@pytest.mark.ci
def test_csv_on_a_terminal_commands_nothing(tmp_path):
    path = tmp_path / "\x1b[31m.parquet"
    parquet_bloom.write_table(pa.table({"id": [1]}), path, ["id"])
    assert "\\x1b[31m" in on_terminal("show", str(path), "--format", "csv")
    assert not ESCAPE.search(on_terminal("show", str(path), "--format", "csv"))

"""`erase`: confirmation, keys as they are given to commands, and exit codes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 100


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("events").mkdir()
    for number in range(2):
        ids = range(number * ROWS, (number + 1) * ROWS)
        pq.write_table(pa.table({"id": ids, "t": [i % 3 for i in ids]}), f"events/{number}.parquet", row_group_size=30)
    return tmp_path


def left() -> int:
    return pq.read_table("events").num_rows


def test_it_asks_nobody_unless_it_is_told_to(events, run):
    refused = run("erase", "events", "--key", "id=7", "--in-place")
    assert (refused.code, refused.out) == (2, "")
    assert "there is no terminal to ask on: add --yes" in refused.errors[0]
    assert left() == 2 * ROWS
    assert run("erase", "events", "--key", "id=7", "--in-place", "--yes").code == 0
    assert left() == 2 * ROWS - 1
    assert run("erase", "events", "--key", "id=7", "--in-place", "--yes", "--json").document["files"] == []


@pytest.mark.ci
@pytest.mark.parametrize(("answer", "code", "rows"), [("y", 0, 2 * ROWS - 2), ("n", 1, 2 * ROWS)])
def test_it_asks_on_a_terminal(events, answer, code, rows, run_on_terminal):
    """With the numbers of rows and files."""
    done = run_on_terminal(answer, "erase", "events", "--key", "id=7", "--key", "id=107", "--in-place")
    assert done.code == code
    assert "Erase 2 rows from 2 files, which are replaced?" in done.err
    assert left() == rows


def test_keys_in_files(events, run):
    pq.write_table(pa.table({"id": pa.array([3, None, 5000, 103])}), "keys.parquet")
    document = run(
        "erase", "events", "--keys", "keys.parquet", "--key-column", "id", "--in-place", "--yes", "--json"
    ).document
    assert document["keys"] == {"given": 4, "null": 1, "found": 2}
    assert (document["totals"]["rows"], document["rows_after"]) == (2, 0)
    Path("keys.txt").write_text("4\n\n104\n")
    assert run("erase", "events", "--keys", "keys.txt", "--key-column", "id", "--in-place", "--yes").code == 0
    Path("keys.csv").write_text("id,t\n6,0\n7,0\n,1\n")
    both = ("--key-column", "id", "--key-column", "t", "--where", "id < 50")
    assert run("erase", "events", "--keys", "keys.csv", *both, "--in-place", "--yes").code == 0
    assert left() == 2 * ROWS - 5
    Path("texts.csv").write_text("id\n8\n")
    by_text = ("--key-column", "CAST(id AS STRING)")
    document = run("erase", "events", "--keys", "texts.csv", *by_text, "--dry-run", "--json").document
    assert document["totals"]["rows"] == 1


def test_errors(events, run):
    for arguments, message in (
        (
            ["events", "--in-place", "--yes"],
            "no rows are chosen: give --key COLUMN=VALUE, --keys FILE with --key-column, or --where",
        ),
        (["events", "--where", "id = 1"], "no target given: add -o PATH, --in-place or --dry-run"),
        (["events", "--where", "id = 1", "-o", "x", "--in-place"], "-o and --in-place exclude each other"),
        (["events", "--where", "no = 1", "--dry-run"], "column 'no': no such column"),
        (["events", "--key", "id=x", "--dry-run"], "'x'"),
        (["events", "--where", "id = 1", "-o", "events/new"], "the output is in the lake itself"),
        (["nowhere", "--where", "id = 1", "--dry-run"], "there is no such file or folder"),
    ):
        failed = run("erase", *arguments)
        assert (failed.code, failed.out) == (2, "")
        assert message in failed.err
    Path("empty").mkdir()
    assert run("erase", "empty", "--where", "id = 1", "--dry-run").errors == ["error: empty: no files in it"]
    assert left() == 2 * ROWS


def test_a_file_that_fails(events, run):
    data = bytearray(Path("events/0.parquet").read_bytes())
    start = pq.read_metadata("events/0.parquet").row_group(0).column(1).dictionary_page_offset
    data[start : start + 8] = bytes(8)
    Path("events/0.parquet").write_bytes(data)
    failed = run("erase", "events", "--key", "id=7", "--key", "id=107", "--in-place", "--yes", "--json")
    assert failed.code == 2
    assert [Path(error["file"]).name for error in failed.document["errors"]] == ["0.parquet"]
    assert [Path(row["file"]).name for row in failed.document["files"]] == ["1.parquet"]
    assert failed.document["rows_after"] == 1
    assert "the files that failed" in [one["where"] for one in failed.document["still_held"] if one["known"]]

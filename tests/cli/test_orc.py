"""The command line on ORC files: rows compared with `orc`, detection of formats by content, and errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from parquet_bloom import orc


def rows(result: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.out.splitlines()]


def test_rows_say_what_the_file_says(lake, run):
    shown = rows(run("show", "orc", "--format", "ndjson"))
    count = 0
    for path in sorted({row["file"] for row in shown}):
        with orc.open(path) as file:
            numbers = {(group.stripe, group.row_group): group.number for group in file.row_groups}
            for row, one in zip([row for row in shown if row["file"] == path], file.filters(), strict=True):
                count += 1
                assert (row["stripe"], row["column"]) == (one.stripe, one.column)
                assert row["row_group"] == numbers[one.stripe, one.row_group]
                assert (row["stream"], row["num_hash_functions"]) == (one.kind, one.num_hash_functions)
                assert (row["num_bytes"], row["doubt"], row["problem"]) == (one.num_bits // 8, one.fault, one.problem)
                assert (row["fill"], row["fpp"], row["ndv_estimate"]) == (one.fill, one.fpp, one.ndv_estimate)
                assert row["offset"] is row["num_blocks"] is None
    assert count == len(shown) == 2 * 2 * 4 + 2 * 5
    assert [row["row_group"] for row in shown if "spark" in row["file"] and row["column"] == "id"] == [0, 1, 2, 3, 4]


def test_columns_and_row_groups_are_chosen(lake, run):
    chosen = rows(run("show", "orc", "--column", "id", "--row-group", "3", "--format", "ndjson"))
    assert [(row["column"], row["row_group"], row["stripe"]) for row in chosen] == [("id", 3, 1)] * 3
    result = run("show", "orc", "--column", "nobody", "--column", "tag", "--row-group", "0", "--row-group", "9")
    assert (result.code, result.errors) == (
        2,
        [
            "error: column 'nobody': no such column in any of 3 files",
            "error: no row group 9 in any of 3 files",
        ],
    )
    assert len(result.out.splitlines()) == 2


def test_parquet_alone_shows_no_column_of_orc(lake, run):
    title = run("show", "lake").out.splitlines()[0]
    assert "stripe" not in title
    assert "offset" in title
    title = run("show", "orc").out.splitlines()[0]
    assert "stripe" in title
    assert "offset" not in title
    title = run("show", "lake", "orc").out.splitlines()[0]
    assert "stripe" in title
    assert "offset" in title


def test_files_are_what_they_hold(lake, run):
    shutil.move("orc/by=spark/part-0.orc", "orc/by=spark/a.parquet")
    shutil.copy("lake/by=spark/part-0.parquet", "orc/by=spark/b.orc")
    shown = rows(run("show", "orc/by=spark", "--column", "id", "--format", "ndjson"))
    assert [(row["file"][-9:], row["stripe"] is None) for row in shown] == [("a.parquet", False)] * 5 + [
        ("ark/b.orc", True)
    ] * 2
    verified = run("verify", "orc/by=spark", "--data")
    assert (verified.code, verified.errors) == (0, [])


@pytest.mark.parametrize("command", ["show", "verify", "advise"])
def test_a_file_that_is_cut_off(command, lake, run):
    data = Path("orc/by=pyarrow/part-0.orc").read_bytes()
    Path("cut.orc").write_bytes(data[:-20])
    result = run(command, "cut.orc")
    assert (result.code, result.errors) == (
        2,
        ["error: cut.orc: not an ORC file, or one cut off: it begins with ORC, but does not end as one"],
    )
    Path("cut.orc").write_bytes(data[len(data) // 2 :])  # its beginning is not read: places in it are wrong
    result = run(command, "cut.orc")
    assert result.code == 2
    assert len(result.errors) == 1


@pytest.mark.parametrize("command", [("embed", "--column", "id"), ("drop",)])
@pytest.mark.parametrize("how", ["--in-place", "--dry-run"])
def test_nothing_is_embedded_and_nothing_dropped(command, how, lake, run):
    before = {path: path.read_bytes() for path in Path("orc").rglob("*.orc")}
    verb, *options = command
    result = run(verb, "orc", "lake/by=pyarrow", *options, how)
    problem = {
        "embed": "an ORC file: only its writer can make its filters; `advise` reports how",
        "drop": "an ORC file: its filters are in its stripes, and go only when its rows are written anew without them",
    }[verb]
    assert result.code == 2
    assert result.errors == [f"error: {path}: {problem}" for path in sorted(map(str, before))]
    assert {path: path.read_bytes() for path in Path("orc").rglob("*.orc")} == before
    assert "lake/by=pyarrow/" in result.out  # the others are done


def test_a_filter_of_other_values(lake, run):
    """Values that a filter denies are reported with --data, and not without it."""
    path = Path("orc/by=pyarrow/part-0.orc")
    with orc.open(path) as file:
        theirs, others = [bytes(one.bitset) for one in file.filters(["id"]) if one.stripe == 1]
    data = path.read_bytes()
    assert data.count(theirs) == 1  # nothing is compressed
    path.write_bytes(data.replace(theirs, others))
    assert run("verify", "orc", "--column", "id").code == 0
    result = run("verify", "orc", "--data", "--column", "id", "--format", "ndjson")
    assert (result.code, result.errors) == (1, [])
    (bad,) = [row for row in rows(result) if not row["ok"]]
    assert (bad["file"], bad["row_group"], bad["column"], bad["num_values"]) == (str(path), 2, "id", 50)
    assert bad["num_missing"] > 40
    assert "denies" in bad["problem"]


def test_a_broken_filter_is_a_row(lake, run):
    """As of Parquet files: the row says what is broken, the others are shown, and the query reads more."""
    path = Path("orc/by=pyarrow/part-0.orc")
    with orc.open(path) as file:
        bitset = bytes(next(file.filters(["id"])).bitset)
    data = bytearray(path.read_bytes())
    data[data.index(bitset) - 2] ^= 0x08  # the tag of the field before it: its length
    path.write_bytes(data)
    result = run("show", path, "--column", "id", "--format", "ndjson")
    assert (result.code, result.errors) == (0, [])
    assert [row["problem"] is not None for row in rows(result)] == [True, False, False, False] or [
        row["problem"] is not None for row in rows(result)
    ] == [True, True, False, False]
    assert "broken" in run("show", path).err
    assert run("verify", path).code == 1
    assert run("find", path, "--where", "id = 4200").code == 0


def test_an_encrypted_file_is_refused(lake, run):
    """Its footer says so, in a field that nobody may pass over."""
    data = Path("orc/by=pyarrow/part-0.orc").read_bytes()
    length = data[-1]
    postscript, before = data[-1 - length : -1], data[: -1 - length]
    assert postscript[0] == 0x08  # field 1, the footer's length, in two bytes
    footer_length = postscript[1] & 0x7F | postscript[2] << 7
    encryption = bytes([10 << 3 | 2, 0])  # an empty message
    footer_length += len(encryption)
    postscript = bytes([0x08, footer_length & 0x7F | 0x80, footer_length >> 7]) + postscript[3:]
    Path("encrypted.orc").write_bytes(before + encryption + postscript + bytes([length]))
    for command in (["show"], ["verify"], ["advise"], ["prune", "--where", "id = 1"], ["find", "--where", "id = 1"]):
        result = run(command[0], "encrypted.orc", *command[1:])
        assert result.code == 2, command
        assert result.errors == ["error: encrypted.orc: columns of the file are encrypted, which is not read"], command

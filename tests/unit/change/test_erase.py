"""Rows erased from the files of a lake: which files change, what is said, and what is refused with nothing changed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from support.dropped_rows import decoded_pages
from support.writers import changing_tables

import parquet_bloom
import parquet_bloom.zones
from parquet_bloom import errors
from parquet_bloom.change import erase_files
from parquet_bloom.file import drop_rows
from parquet_bloom.lake.lake_index import LakeIndex

ROWS, FILES, GROUP = 200, 4, 50


def rows_of(number: int) -> pa.Table:
    ids = range(number * ROWS, (number + 1) * ROWS)
    emails = [None if i % 50 == 0 else f"User{i}@Example.org" for i in ids]
    return pa.table({"id": [*ids], "tenant": [i % 7 for i in ids], "email": emails})


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    for number in range(FILES):
        path = folder / f"part={number % 2}" / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows_of(number), path, row_group_size=GROUP)
    return folder


def read(folder: Path) -> set[int]:
    return set(pq.read_table(folder)["id"].to_pylist())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


ALL = set(range(FILES * ROWS))
DAY = pa.table({"id": pa.array([5, None, 399, 10**6, 5], pa.int64())})


@pytest.mark.ci
@pytest.mark.parametrize(
    "keys",
    [
        [5, None, 399, 10**6, 5],
        DAY["id"],
        DAY,
        DAY.to_reader(),
        "file",
        DAY.to_pandas()["id"].astype("Int64"),
        iter([5, None, 399, 10**6, 5]),
        pl.from_arrow(DAY).with_columns(more=1),
        DAY.to_pandas().assign(aside=1),
    ],
    ids=["list", "array", "table", "stream", "file", "pandas", "iterator", "polars frame", "pandas frame"],
)
def test_keys_of_all_kinds(lake, tmp_path, keys):
    if isinstance(keys, str):
        pq.write_table(DAY, tmp_path / "keys.parquet")
        keys = tmp_path / "keys.parquet"
    before = contents(lake)
    report = parquet_bloom.erase(lake, keys, on="id")
    assert read(lake) == ALL - {5, 399}
    assert (report.keys_given, report.keys_null, report.keys_found) == (5, 1, 2)
    assert (report.num_rows, report.rows_after, report.num_searched) == (2, 0, FILES)
    after = contents(lake)
    assert [name for name in sorted(before) if before[name] != after[name]] == ["part=0/0.parquet", "part=1/1.parquet"]
    assert [(file.dropped.rewritten, file.dropped.copied) for file in report.files] == [(1, 3), (1, 3)]
    assert parquet_bloom.erase(lake, [5], on="id").files == []


SEVERAL = [(8, 1), (9, 1), (None, 3), (15, 1)]
FRAME = pl.DataFrame(SEVERAL, schema=["id", "tenant"], orient="row").select("tenant", "id")


@pytest.mark.parametrize("keys", [SEVERAL, iter(SEVERAL), FRAME, FRAME.to_pandas()])
def test_keys_of_several_columns(lake, keys):
    report = parquet_bloom.erase(lake, keys, on=["id", "tenant"])
    assert read(lake) == ALL - {8, 15}
    assert (report.keys_given, report.keys_null, report.keys_found) == (4, 1, 2)


def test_keys_of_an_expression(lake):
    report = parquet_bloom.erase(lake, ["user7@example.org", "USER8@EXAMPLE.ORG", None], on="lower(email)")
    assert read(lake) == ALL - {7}
    assert (report.keys_given, report.keys_null, report.keys_found) == (3, 1, None)


def test_predicates(lake):
    report = parquet_bloom.erase(lake, where="part = 1 AND tenant = 3")
    gone = {i for i in ALL if i // ROWS % 2 and i % 7 == 3}
    assert read(lake) == ALL - gone
    assert (report.keys_given, report.num_rows, report.rows_after) == (None, len(gone), 0)
    assert parquet_bloom.erase(lake, where=pc.field("email").is_null()).num_rows == len(
        {i for i in ALL if i % 50 == 0} - gone
    )


def test_keys_that_also_match_a_predicate(lake):
    assert parquet_bloom.erase(lake, range(300), on="id", where="tenant = 3").num_rows == 43
    assert read(lake) == ALL - {i for i in range(300) if i % 7 == 3}


def test_all_rows_of_files(lake):
    report = parquet_bloom.erase(lake, where=f"id < {ROWS + GROUP}")
    assert [(file.dropped.rewritten, file.dropped.removed) for file in report.files] == [(0, 4), (0, 1)]
    assert read(lake) == set(range(ROWS + GROUP, FILES * ROWS))


def test_what_would_be_done(lake):
    before = contents(lake)
    planned = parquet_bloom.erase(lake, [5, 399], on="id", dry_run=True)
    assert contents(lake) == before
    assert planned.dry_run
    assert planned.rows_after is None
    done = parquet_bloom.erase(lake, [5, 399], on="id")
    assert [file.dropped for file in planned.files] == [file.dropped for file in done.files]
    assert [file.dropped.new_size for file in done.files] == [os.path.getsize(file.path) for file in done.files]


def test_files_elsewhere(lake, tmp_path):
    before = contents(lake)
    report = parquet_bloom.erase(lake, [5, 399], on="id", output=tmp_path / "new")
    assert contents(lake) == before
    assert sorted(contents(tmp_path / "new")) == ["part=0/0.parquet", "part=1/1.parquet"]
    assert read(tmp_path / "new") == set(range(2 * ROWS)) - {5, 399}
    assert report.rows_after == 0
    assert any(one.known and "old files" in one.where for one in report.held)
    single = str(lake / "part=0" / "0.parquet")
    parquet_bloom.erase(single, [7], on="id", output=tmp_path / "one.parquet")
    assert read(tmp_path / "one.parquet") == {*range(ROWS)} - {7}


def test_a_new_file_in_the_current_folder(lake, monkeypatch):
    monkeypatch.chdir(lake.parent)
    parquet_bloom.erase("lake/part=0/0.parquet", [7], on="id", output="one.parquet")
    assert read(Path("one.parquet")) == {*range(ROWS)} - {7}
    os.symlink("one.parquet", "two.parquet")
    for same in ("one.parquet", "lake/../one.parquet", "two.parquet"):
        with pytest.raises(errors.ParquetBloomError, match="leave it out"):
            parquet_bloom.erase("one.parquet", [8], on="id", output=same)
    assert read(Path("one.parquet")) == {*range(ROWS)} - {7}


def test_progress_is_in_bytes(lake):
    seen: list[tuple[int, int]] = []
    sizes = [(lake / f"part={i % 2}" / f"{i}.parquet").stat().st_size for i in range(2)]
    parquet_bloom.erase(lake, [5, 399], on="id", progress=lambda *each: seen.append(each))
    assert seen == [(sizes[0], sum(sizes)), (sum(sizes), sum(sizes))]


def test_what_cannot_be_searched_again_is_said(lake):
    """Rows are erased, and the report says so, though a file is none since."""
    gone = lake / "part=0" / "0.parquet"

    def spoil(done: int, total: int) -> None:
        if done == total:
            gone.write_bytes(b"no Parquet")

    report = parquet_bloom.erase(lake, [5, 399], on="id", progress=spoil)
    assert (report.num_rows, report.rows_after) == (2, None)
    assert f"may still hold them: what could not be searched again ({gone}: " in str(report)
    gone.unlink()
    assert not {5, 399} & read(lake)


def test_nothing_is_done_unless_confirmed(lake):
    before, asked = contents(lake), []
    report = parquet_bloom.erase(lake, [5, 399], on="id", confirm=lambda *each: bool(asked.append(each)))
    assert asked == [(2, 2)]
    assert (report.num_located, report.num_rows) == (2, 0)
    assert contents(lake) == before


# ------------------------------------------------------------------------------------------------------------
# What is around the files
# ------------------------------------------------------------------------------------------------------------


def test_indexes_and_zones_hide_no_row(lake, tmp_path):
    """Rows after the erased ones are at other places: an index of the old files must not be used for the new."""
    index, zones = tmp_path / "ids.index", tmp_path / "ids.zones.arrow"
    with LakeIndex.create(str(index), ["id"], layout="postings", granularity="row_group") as made:
        made.append(lake)
    parquet_bloom.zones.build(lake, "id", zones, rows_per_zone=16)
    report = parquet_bloom.erase(lake, [*range(60)], on="id", index=index)
    assert report.num_rows == 60
    assert any(one.known and "ids.index" in one.where for one in report.held)
    for options in ({}, {"index": index}, {"zones": zones}, {"index": index, "zones": zones}):
        for key in (60, 61, 120, 199, 200, 799):
            assert parquet_bloom.read_table(lake, f"id = {key}", **options).num_rows == 1, (key, options)
        assert parquet_bloom.read_table(lake, "id = 5", **options).num_rows == 0
    with LakeIndex.open(str(index)) as opened:
        opened.append(lake)
        assert [*opened.lookup("id", [5])[0]] == []


def test_dictionaries_of_other_files_are_told(tmp_path):
    """A table that pyarrow divides into files has its dictionary in each; here they have one row group each."""
    lake = tmp_path / "lake"
    keys = pa.array([f"key-{i:05}" for i in range(900)]).dictionary_encode()
    pq.write_to_dataset(pa.table({"part": [i % 3 for i in range(900)], "key": keys}), lake, partition_cols=["part"])
    report = parquet_bloom.erase(lake, ["key-00004", "key-00007"], on="key")
    [told] = [one for one in report.held if "dictionaries" in one.where]
    assert (told.known, "those of key had" in told.where) == (False, True)
    [erased] = [file.path for file in report.files]
    for path in lake.rglob("*.parquet"):
        assert (b"key-00004" in decoded_pages(path)) == (str(path) != erased)
    assert not any("dictionaries" in one.where for one in parquet_bloom.erase(lake, ["key-00010"], on="key").held)
    gone = parquet_bloom.erase(lake, where="part = 0")  # a file that loses all of its rows
    assert any("those of key had" in one.where for one in gone.held)


def test_what_killed_writers_left_is_said(lake):
    (lake / "part=0" / ".0.parquet.0123456789abcdef.parquet_bloom.old").write_bytes(b"old rows")
    report = parquet_bloom.erase(lake, [5], on="id")
    assert any(one.known and "killed writers" in one.where for one in report.held)


def test_a_file_that_changed_meanwhile_is_left_alone(lake, monkeypatch):
    """Its rows may be at other places now. The others are done, and another run does it."""
    changed = lake / "part=0" / "0.parquet"
    write = drop_rows.write_without_rows

    def late(path: str, *arguments: Any, **options: Any) -> Any:
        if path == str(changed):
            pq.write_table(rows_of(0).slice(3), changed, row_group_size=GROUP)
        return write(path, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr("parquet_bloom.change.erase_files.write_without_rows", late)
        with pytest.raises(errors.FilesFailedError, match="changed since its rows were located") as caught:
            parquet_bloom.erase(lake, [5, 399], on="id", threads=1)
    report = caught.value.report
    assert (report.num_rows, report.rows_after) == (1, 1)
    assert any(one.known and "failed" in one.where for one in report.held)
    assert read(lake) == ALL - {0, 1, 2, 399}
    assert parquet_bloom.erase(lake, [5, 399], on="id").num_rows == 1
    assert read(lake) == ALL - {0, 1, 2, 5, 399}


def test_one_file_that_fails(lake):
    bad = lake / "part=1" / "1.parquet"
    data = bytearray(bad.read_bytes())
    start = pq.read_metadata(bad).row_group(3).column(2).dictionary_page_offset
    data[start : start + 8] = bytes(8)
    bad.write_bytes(data)
    before = contents(lake)
    report = parquet_bloom.erase(lake, [5, 399], on="id", on_error="report")
    assert [*report.errors] == [str(bad)]
    assert "row group 3, column 'email'" in str(report.errors[str(bad)])
    assert {name for name, now in contents(lake).items() if now != before[name]} == {"part=0/0.parquet"}
    seen: list[errors.ParquetBloomError] = []
    parquet_bloom.erase(lake, [399], on="id", on_error=seen.append)
    assert [error.path for error in seen] == [str(bad)]
    with pytest.raises(errors.UnreadableColumnError):
        parquet_bloom.erase(lake, [399], on="id", on_error="raise")


@pytest.mark.ci
def test_on_s3(s3):
    for number in range(2):
        sink = pa.BufferOutputStream()
        pq.write_table(rows_of(number), sink, row_group_size=GROUP)
        s3.put(f"lake/{number}.parquet", sink.getvalue().to_pybytes())
    options = {"storage_options": s3.storage_options}
    untouched = s3.get("lake/1.parquet")
    report = parquet_bloom.erase(s3.url("lake/"), [5, 60], on="id", **options)
    assert (report.num_rows, report.rows_after) == (2, 0)
    assert s3.get("lake/1.parquet") == untouched
    assert pq.read_table(pa.BufferReader(s3.get("lake/0.parquet"))).num_rows == ROWS - 2
    parquet_bloom.erase(s3.url("lake/"), [7], on="id", output=s3.url("new/"), **options)
    assert pq.read_table(pa.BufferReader(s3.get("new/0.parquet"))).num_rows == ROWS - 3


@pytest.mark.ci
def test_long_ranges_are_copied_by_the_store(s3):
    """Of three row groups of 7 MB, in a store whose parts have 5 MB at least, the one in the middle is sent."""
    rng = np.random.default_rng(1)
    table = pa.table({"id": range(2100), "data": pa.array([rng.bytes(10_000) for _ in range(2100)])})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=700, compression="none", use_dictionary=False, write_statistics=["id"])
    s3.put("a.parquet", sink.getvalue().to_pybytes())
    s3.clear_log()
    report = parquet_bloom.erase(s3.url("a.parquet"), [1000], on="id", storage_options=s3.storage_options)
    assert report.rows_after == 0
    operations = [one.operation for one in s3.log]
    assert operations.count("UploadPartCopy") >= 2
    assert 6_900_000 < sum(one.sent for one in s3.log if one.operation == "UploadPart") < 7_200_000
    new = pq.read_table(pa.BufferReader(s3.get("a.parquet")))
    assert new.equals(table.filter(pc.field("id") != 1000))


def test_other_file_systems_need_an_output(lake):
    filesystem = pyarrow.fs.SubTreeFileSystem(str(lake), pyarrow.fs.LocalFileSystem())
    with pytest.raises(errors.FilesFailedError, match="give an output elsewhere"):
        parquet_bloom.erase("part=0", [5], on="id", filesystem=filesystem)
    assert read(lake) == ALL


# ------------------------------------------------------------------------------------------------------------
# The report
# ------------------------------------------------------------------------------------------------------------


def test_the_report_is_kept_with_the_request(lake):
    report = parquet_bloom.erase(lake, [5, None], on="id")
    kept = json.loads(json.dumps(report.to_dict()))
    assert kept["keys"] == {"given": 2, "null": 1, "found": 1}
    assert (kept["rows"], kept["rows_located"], kept["rows_after"], kept["files_searched"]) == (1, 1, 0, FILES)
    assert [file["rows_left"] for file in kept["files"]] == [ROWS - 1]
    assert {one["known"] for one in kept["still_held"]} == {False}
    assert "912" not in json.dumps(kept["keys"])
    text = str(report)
    assert "erased 1 row of 1 file of 4" in text
    assert "2 keys given, 1 found, 1 null" in text
    assert "searched again: 0 rows" in text


# ------------------------------------------------------------------------------------------------------------
# What is refused
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind", "match"),
    [
        ({}, errors.ParquetBloomError, "which rows"),
        ({"keys": [1]}, errors.ParquetBloomError, "go together"),
        ({"on": "id", "where": "id = 1"}, errors.ParquetBloomError, "go together"),
        ({"keys": [1], "on": "nothing"}, errors.UnknownColumnError, "no such column"),
        ({"keys": ["x"], "on": "id"}, errors.PredicateError, "id"),
        ({"keys": np.int64(5), "on": ["id"]}, errors.PredicateError, "are tuples"),
        ({"keys": np.array(5), "on": ["id"]}, errors.PredicateError, "are tuples"),
        ({"keys": FRAME.lazy(), "on": ["id", "tenant"]}, errors.PredicateError, "are tuples"),
        ({"keys": FRAME.to_pandas(), "on": "email"}, errors.PredicateError, "no such column, but tenant, id"),
        ({"keys": {"tenant": [1]}, "on": "id"}, errors.PredicateError, "no such column, but tenant"),
        ({"keys": pd.DataFrame({"id": [1, "x"]}), "on": "id"}, errors.PredicateError, "as Arrow data"),
        ({"keys": [1], "on": "lower(email)"}, errors.PredicateError, "text"),
        ({"where": "id = "}, errors.PredicateError, "end"),
        ({"where": "nothing = 1"}, errors.UnknownColumnError, "no such column"),
        ({"keys": [1], "on": 5}, errors.ParquetBloomError, "a name, or a list of names"),
        ({"keys": [("a", 1)], "on": ["lower(email)", "id"]}, errors.PredicateError, "by itself"),
        ({"keys": [1], "on": "id", "on_error": "go on"}, errors.ParquetBloomError, "'finish', 'raise', 'report'"),
        ({"keys": [1], "on": "id", "output": "inside"}, errors.ParquetBloomError, "in the lake itself"),
        ({"keys": [1], "on": "id", "output": ""}, errors.StorageError, "is empty"),
    ],
)
def test_what_is_asked_wrongly(lake, options, kind, match):
    if options.get("output"):
        options = options | {"output": lake / "inside"}
    before = contents(lake)
    with pytest.raises(kind, match=match) as caught:
        parquet_bloom.erase(lake, **options)
    assert "\n" not in str(caught.value)
    assert contents(lake) == before


def test_tables(tmp_path):
    root = changing_tables.make_delta(tmp_path / "delta")
    before = contents(tmp_path)
    for path in (root, f"{root}/*.parquet", next(str(path) for path in Path(root).rglob("*.parquet"))):
        with pytest.raises(errors.ManagedTableError, match="mode='rewrite'"):
            parquet_bloom.erase(path, [1], on="id")
    assert contents(tmp_path) == before


def test_what_is_no_path_is_named(lake):
    for given, output in ((5, None), ([5], None), (lake, 5)):
        with pytest.raises(errors.StorageError, match="a path must be a string or a path object, not int"):
            parquet_bloom.erase(given, where="id >= 0", output=output)


def test_orc_files(lake):
    pyarrow.orc.write_table(rows_of(9), lake / "part=1" / "9.orc")
    with pytest.raises(errors.FilesFailedError, match="an ORC file: its rows are not rewritten"):
        parquet_bloom.erase(lake, [9 * ROWS, 5], on="id")
    assert read(lake / "part=0" / "0.parquet") == {*range(ROWS)} - {5}


def test_a_file_that_comes_meanwhile_is_left_alone(lake, monkeypatch):
    """It is in no list of versions from before the search."""
    read = erase_files.read_version_tokens

    def late(*arguments: Any) -> Any:
        tokens = read(*arguments)
        pq.write_table(rows_of(0), lake / "part=1" / "new.parquet")
        return tokens

    monkeypatch.setattr(erase_files, "read_version_tokens", late)
    report = parquet_bloom.erase(lake, [5], on="id", on_error="report")
    assert [Path(path).name for path in report.errors] == ["new.parquet"]
    assert (report.num_rows, report.rows_after) == (1, 1)


def test_no_keys(lake):
    for keys in ([], [None], pa.nulls(2, pa.int64())):
        report = parquet_bloom.erase(lake, keys, on="id")
        assert (report.num_rows, report.keys_given, report.keys_null) == (0, len(keys), len(keys))
    assert read(lake) == ALL


def test_a_number_of_threads_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(errors.ParquetBloomError, match="threads must be an integer of at least 1, got 'a'"):
        parquet_bloom.erase(tmp_path, [1], on="id", threads="a")  # type: ignore[arg-type]

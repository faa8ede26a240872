"""Test planning and reading of ORC files, alone and among Parquet files, against whole files filtered by pyarrow."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from support.report_pages import drawn_paths, drawn_texts
from support.writers import orc_tables
from support.writers.orc_tables import FILTERED, STRIDE, by_pyarrow, by_pyorc, make_table

import parquet_bloom
import parquet_bloom.orc
from parquet_bloom import LakeIndex, errors
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.row_filter import row_mask
from parquet_bloom.scan.decode import orc_decoder as orc_rows
from parquet_bloom.scan.decode.open_data import open_file
from parquet_bloom.scan.model.folder_partitions import Partitions
from parquet_bloom.scan.model.scan_plan import ORC, PARQUET, ScanPlan, SourceListing
from parquet_bloom.scan.plan.plan_scan import plan_scan
from parquet_bloom.scan.row_reader import RowReader
from parquet_bloom.scan.scan_options import ScanOptions
from parquet_bloom.storage import list_entries

ROWS = 6 * STRIDE
TABLE = make_table(ROWS)
ABSENT = sorted(TABLE["key"].to_pylist())[ROWS // 2] + 2  # no range rules it out


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of the same columns: ORC, Parquet and ORC under a name that says nothing."""
    folder = tmp_path_factory.mktemp("lake")
    by_pyarrow(folder / "a.orc", TABLE, blooms=FILTERED)
    pq.write_table(make_table(ROWS, 1), folder / "b.parquet", row_group_size=2 * STRIDE)
    parquet_bloom.embed(folder / "b.parquet", columns=["key", "text"])
    by_pyarrow(folder / "c", make_table(ROWS, 2), blooms=FILTERED, compression="snappy")
    return folder


@pytest.fixture
def without_pyorc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orc_rows, "_pyorc", lambda: None)


def read_plain(path: Path) -> pa.Table:
    """All rows of a file, by pyarrow alone."""
    return pq.read_table(path) if path.suffix == ".parquet" else po.ORCFile(path).read()


def expected(paths: list[Path], where: Any, timezone: str = "UTC") -> pa.Table:
    tables = [read_plain(path) for path in paths]
    return pa.concat_tables([table.filter(row_mask(table, parse(where), timezone=timezone)) for table in tables])


def same(result: pa.Table, expected_result: pa.Table) -> None:
    assert result.schema.names == expected_result.schema.names
    assert result.cast(expected_result.schema).equals(expected_result)


def literal(name: str, row: int) -> Any:
    result = TABLE.column(name)[row]
    if name in ("at", "instant"):
        return dt.datetime(2026, 1, 1) + dt.timedelta(milliseconds=TABLE.column("key")[row].as_py())
    return result.as_py()


# ------------------------------------------------------------------------------------------------------------- judging


def test_filters_rule_row_groups_out(lake):
    report = parquet_bloom.prune(lake / "a.orc", [("key", "==", ABSENT)])
    (decision,) = report.files
    assert decision.format == ORC
    assert report.total_row_groups == 6
    assert report.selected_row_groups == 0
    assert set(report.skipped_by) == {"filter"}
    assert [one.row_group for one in decision.row_groups] == list(range(6))
    assert {one.num_rows for one in decision.row_groups} == {STRIDE}
    assert decision.row_groups[0].stripe == 0
    assert report.doubts == []


def test_stripes_are_numbered_and_row_groups_counted_through(lake):
    stripes = po.ORCFile(lake / "a.orc")
    rows = [stripes.read_stripe(number).num_rows for number in range(stripes.nstripes)]
    assert len(rows) > 1
    report = parquet_bloom.prune(lake / "a.orc", "row >= 0")
    (decision,) = report.files
    reported = [(one.row_group, one.stripe, one.num_rows) for one in decision.row_groups]
    requested, number = [], 0
    for stripe, count in enumerate(rows):
        for start in range(0, count, STRIDE):
            requested.append((number, stripe, min(STRIDE, count - start)))
            number += 1
    assert reported == requested


@pytest.mark.parametrize("name", FILTERED)
def test_a_value_is_found_in_its_row_group_and_mostly_there_alone(lake, name):
    row = 431
    report = parquet_bloom.prune(lake / "a.orc", [(name, "==", literal(name, row))])
    (decision,) = report.files
    at = [position for position, value in enumerate(TABLE.column(name)) if value == TABLE.column(name)[row]]
    first = 0
    holding = set()
    for one in decision.row_groups:
        if any(first <= position < first + one.num_rows for position in at):
            holding.add(one.row_group)
        first += one.num_rows
    assert holding <= set(decision.selected)
    assert len(decision.selected) <= len(holding) + 1
    assert report.doubts == []


def test_row_index_statistics_rule_out_what_stripes_do_not(tmp_path):
    table = pa.table({"n": pa.array(range(8 * STRIDE)), "s": [f"{i:06}" for i in range(8 * STRIDE)]})
    path = by_pyarrow(tmp_path / "f.orc", table, stripe_size=64 * 2**20)
    assert po.ORCFile(path).nstripes == 1
    assert parquet_bloom.prune(path, "n = 450").files[0].selected == [4]
    assert parquet_bloom.prune(path, "s BETWEEN '000250' AND '000350'").files[0].selected == [2, 3]
    assert parquet_bloom.prune(path, "n < 100 OR s > '000750'").files[0].selected == [0, 7]
    assert parquet_bloom.prune(path, "n = 450 AND s = '000001'").selected == {}
    assert parquet_bloom.prune(path, "n IS NULL").skipped_by == {"nulls": 8}


LARGE = {"row_index_stride": 1000, "batch_size": 2000, "compression": "uncompressed"}
"""Of files that are not read whole with their footers."""


def test_stripes_that_statistics_rule_out_are_not_looked_into(tmp_path):
    table = pa.table({"n": pa.array(range(20_000)), "s": [f"{i:x}" * 10 for i in range(20_000)]})
    path = by_pyarrow(tmp_path / "f.orc", table, blooms=["n", "s"], **LARGE)
    none = parquet_bloom.prune(path, "n > 1000000")
    some = parquet_bloom.prune(path, "n = 10")
    assert none.selected == {}
    assert some.selected == {str(path): [0]}
    assert none.requests == 1
    assert none.bytes_read < some.bytes_read < path.stat().st_size / 4


def test_filters_are_probed_only_where_ranges_leave_row_groups(tmp_path):
    table = pa.table({"n": pa.array(range(20_000)), "k": pa.array(orc_tables.keys(20_000))})
    path = by_pyarrow(tmp_path / "f.orc", table, blooms=["k"], **LARGE)
    key = table["k"][15_500].as_py()
    narrow = parquet_bloom.prune(path, [("n", ">=", 15_000), ("n", "<", 16_000), ("k", "==", key)])
    wide = parquet_bloom.prune(path, [("k", "==", key)])
    assert narrow.selected == {str(path): [15]}
    assert narrow.bytes_read < wide.bytes_read


def test_files_without_a_row_index_are_a_row_group_a_stripe(tmp_path):
    path = by_pyorc(tmp_path / "f.orc", "struct<n:bigint>", [(i,) for i in range(500)], row_index_stride=0)
    report = parquet_bloom.prune(path, "n = 3")
    assert report.total_row_groups == po.ORCFile(path).nstripes
    assert report.selected_row_groups == 1
    assert parquet_bloom.read_table(path, "n = 3").to_pylist() == [{"n": 3}]
    assert parquet_bloom.prune(path, "n = 500").selected == {}


def test_empty_files(tmp_path):
    path = by_pyarrow(tmp_path / "f.orc", pa.table({"n": pa.array([], pa.int64())}))
    assert parquet_bloom.prune(path, "n = 1").total_row_groups == 0
    assert parquet_bloom.read_table(path, "n = 1").schema == pa.schema([("n", pa.int64())])
    with pytest.raises(errors.UnknownColumnError, match="no such column"):
        parquet_bloom.prune(path, "m = 1")


def test_files_without_columns(tmp_path):
    path = by_pyorc(tmp_path / "f.orc", "struct<>", [(), ()])
    other = by_pyarrow(tmp_path / "g.orc", pa.table({"n": [1, 2]}))
    assert parquet_bloom.read_table([path, other], "n = 1").to_pylist() == [{"n": 1}]
    assert parquet_bloom.prune([path, other], "n = 1").total_files == 2


def test_names_fold_their_case_and_positional_names_are_just_names(tmp_path):
    path = by_pyorc(tmp_path / "f.orc", "struct<_col0:bigint,_col1:string>", [(i, str(i)) for i in range(300)])
    assert parquet_bloom.prune(path, "_COL0 = 150", case_sensitive=False).files[0].selected == [1]
    assert parquet_bloom.read_table(path, "_col0 = 150").to_pylist() == [{"_col0": 150, "_col1": "150"}]


def test_folders_are_columns(tmp_path):
    for day in ("2026-01-01", "2026-01-02"):
        folder = tmp_path / f"day={day}"
        folder.mkdir()
        by_pyarrow(folder / "f.orc", pa.table({"n": pa.array(range(10))}))
    report = parquet_bloom.prune(tmp_path, "day = DATE '2026-01-02' AND n = 3")
    assert report.unopened_files == 1
    assert report.selected_files == 1
    result = parquet_bloom.read_table(tmp_path, "day = DATE '2026-01-02' AND n = 3")
    assert result.to_pylist() == [{"n": 3, "day": dt.date(2026, 1, 2)}]


# -------------------------------------------------------------------------------------------------- nested columns


NESTED = "struct<n:bigint,st:struct<x:bigint,y:string>,li:array<bigint>,ma:map<string,bigint>,un:uniontype<int,string>>"


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows: list[tuple[Any, ...]] = []
    for i in range(4 * STRIDE):
        st = None if i % 7 == 2 else (i, f"y{i}")
        li = None if i % 5 == 1 else [] if i % 5 == 2 else [i, None, i + 1]
        rows.append((i, st, li, {f"k{i}": i}, i))
    path = tmp_path_factory.mktemp("nested") / "f.orc"
    return by_pyorc(path, NESTED, rows, blooms=["n", "st.x", "st.y"], stripe_size=64 * 2**20)


def test_leaves_of_structs(nested):
    assert parquet_bloom.prune(nested, [("st.x", "==", 250)]).files[0].selected == [2]
    # What C++ writers count of texts in structs may be others than those that they write.
    report = parquet_bloom.prune(nested, [("st.y", "==", "y10")])
    assert report.files[0].selected == [0, 1, 2, 3]
    assert "nested structs" in report.doubts[0][2]
    result = parquet_bloom.read_table(nested, [("st.x", "==", 250)], ["n", "st.y"])
    assert result.to_pylist() == [{"n": 250, "st": {"y": "y250"}}]
    result = parquet_bloom.read_table(nested, "st.y = 'y250'", ["st.x", "n"])
    assert result.to_pylist() == [{"n": 250, "st": {"x": 250}}]


def test_a_leaf_is_null_where_its_struct_is(nested):
    result = parquet_bloom.read_table(nested, "st.x IS NULL", ["n"])
    assert result["n"].to_pylist() == [i for i in range(4 * STRIDE) if i % 7 == 2]


def test_elements_of_lists(nested):
    report = parquet_bloom.prune(nested, contains(250))
    assert report.files[0].selected == [2]
    result = parquet_bloom.read_table(nested, contains(250), ["n"])
    assert result["n"].to_pylist() == [i for i in (249, 250) if i % 5 not in (1, 2)]
    assert parquet_bloom.prune(nested, "li IS NULL").selected_row_groups == 4


def contains(value: int) -> Any:
    from parquet_bloom.predicate.tree import Contains

    return Contains("li", value)


def test_maps_and_unions_are_not_looked_into(nested):
    for name in ("ma.key", "ma.value", "un.0", "un.1"):
        report = parquet_bloom.prune(nested, [(name, "==", "nothing" if name in ("ma.key", "un.1") else -5)])
        assert report.selected_row_groups == 4
        assert report.doubts[0][2] == f"'{name}': values nested in it are not supported"
    assert parquet_bloom.prune(nested, [("ma", "==", 3)]).selected_row_groups == 4


# ------------------------------------------------------------------------------------------------------ mixed lakes


WHERES = [
    f"key = {TABLE['key'][123].as_py()}",
    f"key IN ({', '.join(str(make_table(50, seed)['key'][17].as_py()) for seed in range(3))})",
    f"text = '{TABLE['text'][400].as_py()}' OR row = 77",
    "row BETWEEN 290 AND 310 AND flag = TRUE",
    "text IS NULL AND row < 30",
    "f64 > 1e9 AND i8 <> 3",
    f"key = {ABSENT}",
]


@pytest.mark.ci
@pytest.mark.parametrize("where", WHERES)
def test_rows_of_both_formats_are_read(lake, where):
    paths = [lake / "a.orc", lake / "b.parquet", lake / "c"]
    expected_result = expected(paths, where)
    same(parquet_bloom.read_table(lake, where), expected_result)
    batches = parquet_bloom.dataset(lake).scan(where).to_reader(batch_size=100)
    same(batches.read_all(), expected_result)
    some = parquet_bloom.read_table(lake, where, ["text", "row"])
    same(some.select(["row", "text"]), expected_result.select(["row", "text"]))


@pytest.mark.parametrize("where", WHERES)
def test_and_by_pyarrow_alone(lake, where, without_pyorc):
    paths = [lake / "a.orc", lake / "b.parquet", lake / "c"]
    same(parquet_bloom.read_table(lake, where), expected(paths, where))


def test_the_report_names_formats_and_causes(lake):
    report = parquet_bloom.prune(lake, WHERES[0])
    assert [file.format for file in report.files] == [ORC, PARQUET, ORC]
    assert report.selected[str(lake / "a.orc")] == [1]
    assert "row group" in report.explain()


def test_row_ranges_are_whole_row_groups(lake):
    result = parquet_bloom.dataset(lake / "a.orc").scan(WHERES[0]).row_ranges()
    (ranges,) = result.values()
    assert all(rows == [(0, STRIDE)] for rows in ranges.values())
    assert 1 in ranges


def test_matches_are_counted(lake):
    report = parquet_bloom.prune(lake, WHERES[3])
    counted = sum(sum(RowReader(report).count_matches(decision).values()) for decision in report.files)
    assert counted == expected([lake / "a.orc", lake / "b.parquet", lake / "c"], WHERES[3]).num_rows
    assert parquet_bloom.dataset(lake).scan(WHERES[3]).count_rows() == counted


def test_a_dataset_holds_both_formats(lake):
    dataset = parquet_bloom.dataset(lake)
    expected_result = expected([lake / "a.orc", lake / "b.parquet", lake / "c"], WHERES[1])
    result = dataset.to_table().filter(row_mask(dataset.to_table(), parse(WHERES[1])))
    same(result, expected_result)
    same(dataset.scan(WHERES[1]).to_arrow(), expected_result)
    assert dataset.count_rows() == dataset.to_table().num_rows == 3 * ROWS
    alone = parquet_bloom.dataset(lake / "a.orc")
    same(alone.to_table(filter=pc.field("key") == TABLE["key"][123].as_py()), expected([lake / "a.orc"], WHERES[0]))
    assert alone.count_rows(filter=pc.field("key") == ABSENT) == 0
    assert not any(fragment.row_groups for fragment in alone.get_fragments(pc.field("key") == ABSENT))


def test_a_dataset_of_columns_that_differ(tmp_path):
    by_pyarrow(tmp_path / "a.orc", pa.table({"n": pa.array([1, 2], pa.int32()), "s": ["x", "y"]}))
    pq.write_table(pa.table({"n": pa.array([1, 3], pa.int64()), "t": [1.5, 2.5]}), tmp_path / "b.parquet")
    result = parquet_bloom.dataset(tmp_path).to_table()
    assert result.schema == pa.schema([("n", pa.int64()), ("s", pa.string()), ("t", pa.float64())])
    assert sorted(result["n"].to_pylist()) == [1, 1, 2, 3]
    same(parquet_bloom.read_table(tmp_path, "n = 1"), result.filter(pc.field("n") == 1))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_polars_reads_both(lake):
    frame = parquet_bloom.scan_polars(lake)
    expected_result = expected([lake / "a.orc", lake / "b.parquet", lake / "c"], "row = 77")
    result = frame.filter(pl.col("row") == 77).select("row", "text", "key").collect()
    assert result.to_dicts() == expected_result.select(["row", "text", "key"]).to_pylist()
    key = TABLE["key"][500].as_py()
    assert frame.filter(pl.col("key") == key).select("row").collect()["row"].to_list() == [500]
    assert frame.select(pl.len()).collect().item() == 3 * ROWS
    assert frame.head(7).collect().height == 7


def test_polars_takes_columns_that_a_file_does_not_have(tmp_path):
    by_pyarrow(tmp_path / "a.orc", pa.table({"n": [1, 2]}))
    by_pyarrow(tmp_path / "b.orc", pa.table({"n": [1], "s": ["x"]}))
    result = parquet_bloom.scan_polars(tmp_path).filter(pl.col("n") == 1).collect()
    assert result.to_dicts() == [{"n": 1, "s": None}, {"n": 1, "s": "x"}]


def test_the_picture_shows_orc_tables(lake):
    report = parquet_bloom.prune(lake, WHERES[0])
    page = report.to_html(check=True)
    assert "a.orc" in drawn_paths(page)
    assert any("fpp" in text for text in drawn_texts(page, "matched"))
    assert "could not be read again" not in page


def test_an_index_of_the_lake_does_not_lose_orc_tables(lake, tmp_path):
    with LakeIndex.create(tmp_path / "index", ["key"]) as index:
        index.append([str(lake / "b.parquet")])
    result = parquet_bloom.read_table(lake, WHERES[1], index=str(tmp_path / "index"))
    same(result, expected([lake / "a.orc", lake / "b.parquet", lake / "c"], WHERES[1]))


# -------------------------------------------------------------------------------------------- odd and broken files


def test_neither_format(tmp_path):
    path = tmp_path / "f.orc"
    path.write_bytes(b"nothing of the kind" * 10)
    with pytest.raises(errors.NotParquetError, match="not a Parquet file"):
        parquet_bloom.prune(path, "n = 1")
    good = by_pyarrow(tmp_path / "g.orc", pa.table({"n": [1]}))
    path.write_bytes(good.read_bytes()[:-5])
    with pytest.raises(errors.NotParquetError, match="begins with ORC"):
        parquet_bloom.prune(path, "n = 1")


def test_a_broken_byte_loses_no_row_silently(tmp_path):
    """Whatever byte of the indexes is another one: what is still read must hold the row, or an error is raised."""
    count = 3 * STRIDE
    table = pa.table({"k": pa.array(orc_tables.keys(count)), "s": [f"{i}" for i in range(count)]})
    path = by_pyarrow(tmp_path / "f.orc", table, blooms=["k", "s"], compression="zlib")
    data = bytearray(path.read_bytes())
    odd = tmp_path / "odd.orc"
    for position in range(len(data) - 600, len(data), 7):
        changed = bytearray(data)
        changed[position] ^= 0x5A
        odd.write_bytes(changed)
        with suppress(errors.ParquetBloomError):  # anything else is not an error of the package
            assert parquet_bloom.prune(odd, [("s", "==", "150")]).total_files == 1


# ----------------------------------------------------------------------------------------------------------- timestamps


FAR = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59), dt.datetime(2026, 1, 1)]


@pytest.fixture
def far(tmp_path) -> Path:
    rows = [(i, FAR[i % 3].replace(tzinfo=dt.UTC) if i < 2 * STRIDE else MOMENT) for i in range(4 * STRIDE)]
    return by_pyorc(tmp_path / "f.orc", "struct<n:bigint,at:timestamp>", rows)


MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_timestamps_beyond_nanoseconds_are_an_error_not_another_time(far):
    for where in ("at = TIMESTAMP '9999-12-31 23:59:59'", "at < TIMESTAMP '1000-01-01 00:00:00'"):
        assert 0 in parquet_bloom.prune(far, where).files[0].selected
        with pytest.raises(errors.UnreadableColumnError) as caught:
            parquet_bloom.read_table(far, where)
        assert str(far) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert parquet_bloom.read_table(far, "n = 1", ["n"]).to_pylist() == [{"n": 1}]


def test_also_where_pyarrow_wraps_them(far, monkeypatch):
    monkeypatch.setattr("parquet_bloom.scan.decode.orc_decoder._wraps_timestamps", lambda: True)
    with pytest.raises(errors.UnreadableColumnError, match="nanoseconds of 64 bits cannot count") as caught:
        parquet_bloom.read_table(far, "n = 1")
    assert "'at'" in str(caught.value)
    assert parquet_bloom.read_table(far, "n = 1", ["n"]).to_pylist() == [{"n": 1}]


def test_whether_pyarrow_wraps_is_found_out():
    assert orc_rows._wraps_timestamps() in (False, True)


# ---------------------------------------------------------------------------------------------------------- row groups


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stripe of many row groups, for which seeking pays."""
    path = tmp_path_factory.mktemp("wide") / "f.orc"
    return by_pyarrow(path, make_table(20 * STRIDE), stripe_size=256 * 2**20)


@pytest.mark.parametrize("positions", [[0], [19], [3, 4], [0, 7, 19]])
def test_row_groups_by_pyorc_are_those_of_pyarrow(wide, positions):
    with open_file(str(wide), None, None) as file:
        assert file.format == ORC
        expected_result = po.ORCFile(wide).read()
        ranges = [(location * STRIDE, STRIDE) for location in positions]
        result = orc_rows.seek_rows(file.file, 0, ranges, file.schema, file.schema)
        assert result is not None
        assert result.equals(pa.concat_tables([expected_result.slice(*one) for one in ranges]))
        result.validate(full=True)


def test_what_pyorc_cannot_read_pyarrow_does(tmp_path):
    count = 20 * STRIDE
    texts = pa.array([b"\xff" if i == 5 else b"a" for i in range(count)], pa.binary()).view(pa.string())
    table = pa.table({"n": pa.array(range(count)), "s": texts})
    path = by_pyarrow(tmp_path / "f.orc", table, stripe_size=256 * 2**20)
    result = parquet_bloom.read_table(path, "n = 5")
    assert result["s"].cast(pa.binary()).to_pylist() == [b"\xff"]


def test_names_with_dots_and_names_twice(tmp_path):
    table = pa.Table.from_arrays(
        [pa.array([1, 2]), pa.array(["x", "y"]), pa.array([{"b": 5}, {"b": 6}])], names=["a.b", "a", "s"]
    )
    path = by_pyarrow(tmp_path / "f.orc", table)
    assert parquet_bloom.read_table(path, [("s.b", "==", 6)]).to_pylist() == [{"a.b": 2, "a": "y", "s": {"b": 6}}]
    assert parquet_bloom.read_table(path, [("a", "==", "x")], ["s"]).to_pylist() == [{"s": {"b": 5}}]


def test_char_matches_with_and_without_its_spaces(tmp_path):
    rows = [(i, f"c{i}") for i in range(3 * STRIDE)]
    path = by_pyorc(tmp_path / "f.orc", "struct<n:bigint,c:char(8)>", rows, blooms=["c"], stripe_size=64 * 2**20)
    stored = po.ORCFile(path).read()["c"][150].as_py()
    for text in {stored, "c150", "c150   "}:
        assert 1 in parquet_bloom.prune(path, [("c", "==", text)]).files[0].selected
    assert parquet_bloom.read_table(path, [("c", "==", stored)])["n"].to_pylist() == [150]


def test_decimals_and_zeros(tmp_path):
    rows = [(Decimal(i) / 4, 0.0 if i % 2 else -0.0) for i in range(2 * STRIDE)]
    schema = "struct<d:decimal(12,4),z:double>"
    path = by_pyorc(tmp_path / "f.orc", schema, rows, blooms=["d", "z"])
    assert parquet_bloom.read_table(path, [("d", "==", Decimal("25.250"))]).num_rows == 1
    assert parquet_bloom.read_table(path, [("z", "==", 0)]).num_rows == 2 * STRIDE


def test_empty_filters_are_skipped_and_reported(tmp_path):
    table = pa.table({"k": pa.array(orc_tables.keys(4 * STRIDE))})
    path = by_pyarrow(tmp_path / "f.orc", table, blooms=["k"], compression="uncompressed")
    absent = sorted(table["k"].to_pylist())[2 * STRIDE] + 2
    with parquet_bloom.orc.open(path) as file:
        broken = [one.bitset for one in file.filters(["k"]) if one.row_group < 2]
    assert parquet_bloom.prune(path, [("k", "==", absent)]).selected == {}
    data = path.read_bytes()
    for bitset in broken:
        assert data.count(bitset) == 1
        data = data.replace(bitset, bytes(len(bitset)))
    path.write_bytes(data)
    report = parquet_bloom.prune(path, [("k", "==", absent)])
    assert report.selected == {str(path): [0, 1]}
    assert [doubt for _, _, doubt in report.doubts] == ["'k': no bit is set, yet the row group may hold values"] * 2


def test_other_file_systems(lake):
    location = SubTreeFileSystem(str(lake), LocalFileSystem())
    where = WHERES[1]
    expected_result = expected([lake / "a.orc", lake / "b.parquet", lake / "c"], where)
    same(parquet_bloom.read_table("", where, filesystem=location), expected_result)
    report = parquet_bloom.prune("", where, filesystem=location)
    assert {file.format for file in report.files} == {ORC, PARQUET}
    same(parquet_bloom.dataset("", filesystem=location).scan(where).to_arrow(), expected_result)


def test_a_file_that_was_replaced_is_read_as_it_is(lake, tmp_path):
    path = by_pyarrow(tmp_path / "f.orc", make_table(300))
    reports = [parquet_bloom.prune(path, f"row = {row}") for row in (450, 451)]
    assert [report.selected for report in reports] == [{}, {}]
    reports = [parquet_bloom.prune(path, f"row IN (5, {row})") for row in (450, 451)]
    by_pyarrow(tmp_path / "g.orc", make_table(500, 9)).replace(path)
    assert RowReader(reports[0], ["row"]).read_table()["row"].to_pylist() == [5, 450]
    pq.write_table(make_table(500, 9), tmp_path / "h")
    (tmp_path / "h").replace(path)
    assert RowReader(reports[1], ["row"]).read_table()["row"].to_pylist() == [5, 451]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def test_timestamps_are_the_wall_clock_of_their_writer(tmp_path, zone):
    """TIMESTAMP has no zone; an instant has."""
    clocks = [dt.datetime(2026, 3, 29, 1, 30) + dt.timedelta(minutes=7 * i) for i in range(3 * STRIDE)]
    own = zoneinfo.ZoneInfo(zone)
    rows = [(i, clock.replace(tzinfo=own), clock.replace(tzinfo=dt.UTC)) for i, clock in enumerate(clocks)]
    schema = "struct<n:bigint,at:timestamp,instant:timestamp with local time zone>"
    path = by_pyorc(tmp_path / "f.orc", schema, rows, blooms=["at", "instant"], timezone=own)
    read = po.ORCFile(path).read()["at"].to_pylist()
    for row in (5, 150, 299):
        shown = read[row].to_pydatetime()
        assert row // STRIDE in parquet_bloom.prune(path, [("at", "==", shown)]).files[0].selected
        assert row in parquet_bloom.read_table(path, [("at", "==", shown)])["n"].to_pylist()
        assert parquet_bloom.read_table(path, [("instant", "==", clocks[row])])["n"].to_pylist() == [row]
        assert parquet_bloom.prune(path, [("instant", "==", clocks[row])]).files[0].selected == [row // STRIDE]


def test_compatibility_is_checked_per_column(lake):
    class Distrust:
        def orc_doubts(self, file: Any) -> dict[str, str]:
            return {"key": "it is read as something else"}

    listing = SourceListing(list_entries(str(lake / "a.orc")), None, Partitions(()))
    node = parse(f"key = {ABSENT}")

    def plan(trust: Any) -> ScanPlan:
        return plan_scan(listing, node, ScanOptions(trust=trust), ScanPlan, None)

    assert plan(None).selected == {}
    report = plan(Distrust())
    assert report.selected_row_groups == report.total_row_groups
    assert report.doubts[0][2] == "'key': it is read as something else"
    report = plan(object())
    assert report.doubts[0][2] == "'key': how the engine reads ORC files is not known"

"""Test `prune` and `read_table`: what is skipped, by which evidence, and what is read because evidence is missing."""

from __future__ import annotations

import datetime as dt
import math
import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.writers import surgery

import parquet_bloom
from parquet_bloom import errors
from parquet_bloom.file import column_statistics as of_footers
from parquet_bloom.file.chunk_bounds import decode_bounds
from parquet_bloom.hashing.column_type import from_arrow, from_parquet
from parquet_bloom.metadata.footer import Statistics
from parquet_bloom.types import PruneReport

ROWS, GROUPS = 400, 4


def make_table() -> pa.Table:
    """Keys of each row group spread over the whole range, so that statistics rule nothing out."""
    rng = random.Random(1)
    keys = [rng.randrange(2**40) for _ in range(ROWS)]
    return pa.table(
        {
            "key": pa.array(keys),
            "text": pa.array([None if i % 9 == 0 else f"{key:x}" for i, key in enumerate(keys)]),
            "sorted": pa.array(range(ROWS), pa.int32()),
            "other": pa.array([(i * 40_503) % 65_536 for i in range(ROWS)], pa.uint16()),
            "unfiltered": pa.array(keys),
            "flag": pa.array([i % 2 == 0 for i in range(ROWS)]),
            "null": pa.nulls(ROWS, pa.string()),
            "st": pa.array([{"a": i, "b": f"b{i}"} for i in range(ROWS)]),
            "li": pa.array([[i] for i in range(ROWS)], pa.list_(pa.int64())),
        }
    )


TABLE = make_table()
KEYS = TABLE["key"].to_pylist()
TEXTS = TABLE["text"].to_pylist()
OTHERS = TABLE["other"].to_pylist()


def group_of(row: int) -> int:
    return row // (ROWS // GROUPS)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("prune") / "a.parquet"
    # Dictionaries would decide what filters do.
    pq.write_table(TABLE, target, row_group_size=ROWS // GROUPS, use_dictionary=False)
    parquet_bloom.embed(target, ["key", "text", "other", "st.a", "st.b", "li", "sorted"], fpp=1e-6)
    return str(target)


def selected(path: Any, where: Any, **options: Any) -> list[int]:
    report = parquet_bloom.prune(path, where, **options)
    assert report.total_row_groups == report.selected_row_groups + len(report.skipped)
    return report.selected[str(path)]


# ------------------------------------------------------------------------------------------------------------
# Predicates
# ------------------------------------------------------------------------------------------------------------

SOME, ABSENT_KEY = 250, 2**40 + 5


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        (f"key = {KEYS[SOME]}", {group_of(SOME)}),
        (f"key = {ABSENT_KEY}", set()),
        (f"key IN ({KEYS[3]}, {KEYS[399]}, {ABSENT_KEY})", {0, 3}),
        (f"key IN ({ABSENT_KEY}, {ABSENT_KEY + 1})", set()),
        (f"text = '{TEXTS[SOME]}'", {group_of(SOME)}),
        (f"text IN ('{TEXTS[1]}', NULL)", {0}),
        ("text = NULL", set()),
        ("text IN (NULL)", set()),
        (f"key = {KEYS[SOME]} AND text = '{TEXTS[SOME]}'", {2}),
        (f"key = {KEYS[SOME]} AND text = '{TEXTS[5]}'", set()),
        (f"key = {KEYS[SOME]} AND unfiltered = {KEYS[5]}", {2}),
        (f"key = {KEYS[SOME]} OR text = '{TEXTS[5]}'", {0, 2}),
        (f"key = {KEYS[SOME]} OR other = {OTHERS[110]}", {1, 2}),
        (f"key = {KEYS[SOME]} OR unfiltered = {KEYS[5]}", {0, 1, 2, 3}),
        (f"(key = {KEYS[1]} OR key = {KEYS[399]}) AND (text = '{TEXTS[1]}' OR other = 70000)", {0}),
        ("sorted = 250", {2}),
        ("sorted IN (0, 399)", {0, 3}),
        ("sorted = -1", set()),
        ("sorted = 3000000000", set()),  # no such INT32
        ("sorted = 250.0", {2}),
        ("sorted = 250.5", set()),
        ("other = 65536", set()),
        ("other = -1", set()),
        ("flag = true", {0, 1, 2, 3}),
        ("\"null\" = 'x'", set()),
        ("st.a = 250", {2}),
        ("st.b = 'b250'", {2}),
        ("li.list.element = 250", {2}),
        ([("key", "=", KEYS[SOME])], {2}),
        ([("key", "==", KEYS[SOME]), ("text", "in", {TEXTS[SOME], "x"})], {2}),
        ([[("key", "=", KEYS[SOME])], [("text", "in", [TEXTS[5]])]], {0, 2}),
        ([("key", "in", np.array(KEYS[:3]))], {0}),
    ],
)
def test_which_row_groups_are_read(path, where, groups):
    assert set(selected(path, where)) == groups


@pytest.mark.parametrize(
    ("where", "by"),
    [
        (f"key = {KEYS[SOME]}", {"filter": 3}),
        ("sorted = 250", {"range": 3}),
        ("sorted = 3000000000", {"type": 4}),
        ("\"null\" = 'x'", {"nulls": 4}),
        ("key = NULL", {"type": 4}),
        (f"key IN ({KEYS[SOME]}, {2**41})", {"filter+range": 3}),
        (f"key = {KEYS[SOME]} OR sorted = 3", {"filter+range": 2}),
    ],
)
def test_every_skipped_row_group_says_why(path, where, by):
    report = parquet_bloom.prune(path, where)
    assert report.skipped_by == by
    for file, row_group, reason in report.skipped:
        assert (file, row_group in range(GROUPS)) == (path, True)
        assert reason
        assert "\n" not in reason
        assert any(f"'{name}'" in reason for name in TABLE.column_names)


def test_reports(path):
    report = parquet_bloom.prune(path, f"key = {KEYS[SOME]}")
    assert (report.total_files, report.selected_files) == (1, 1)
    assert (report.total_row_groups, report.selected_row_groups) == (4, 1)
    assert report.selected == {path: [2]}
    assert report.selected["elsewhere"] == []
    assert report.doubts == []
    assert str(report).startswith("read 1 of 1 file, 1 of 4 row groups; ")
    assert report.where
    (file,) = report.files
    assert [decision.read for decision in file.row_groups] == [False, False, True, False]
    assert {decision.num_rows for decision in file.row_groups} == {100}
    nothing = parquet_bloom.prune(path, f"key = {ABSENT_KEY}", cache=None)
    assert nothing.selected == {}
    assert str(nothing).startswith("read 0 of 1 file, 0 of 4 row groups; 1 request, ")


@pytest.mark.parametrize("where", [f"key = {KEYS[SOME]}", f"key IN ({', '.join(map(str, KEYS[::97]))})", "sorted = 5"])
def test_rows_are_the_ones_that_match(path, where):
    table = parquet_bloom.read_table(path, where)
    assert table.schema.equals(pq.read_schema(path))
    expected = KEYS[SOME : SOME + 1] if where.startswith("key =") else KEYS[::97] if "IN" in where else KEYS[5:6]
    assert table["key"].to_pylist() == expected
    some = parquet_bloom.read_table(path, where, columns=["text", "st.b"])
    assert some.column_names == ["text", "st"]
    assert some["text"].to_pylist() == table["text"].to_pylist()


def test_no_rows_have_a_schema_too(path):
    table = parquet_bloom.read_table(path, f"key = {ABSENT_KEY}")
    assert table.num_rows == 0
    assert table.schema.equals(pq.read_schema(path))


# ------------------------------------------------------------------------------------------------------------
# Doubts
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "doubt"),
    [
        ("key = 'x'", "cannot be compared exactly"),
        ("key = 1e30", "cannot be compared exactly"),
        ("text = 5", "cannot be compared exactly"),
        ("key = CAST('nan' AS DOUBLE)", "NaN"),
        ("flag = 1", "cannot be compared exactly"),
    ],
)
def test_literals_that_cannot_be_compared_are_read(path, where, doubt):
    if "nan" in where:
        where = [("key", "=", math.nan)]
    report = parquet_bloom.prune(path, where)
    assert report.selected == {path: [0, 1, 2, 3]}
    assert len(report.doubts) == 4
    assert all(doubt in text for _, _, text in report.doubts)


def test_a_doubt_in_one_condition_does_not_hide_another(path):
    """Certain evidence still prunes; the doubt is reported only where something is read."""
    report = parquet_bloom.prune(path, f"key = 'x' AND text = '{TEXTS[SOME]}'")
    assert report.selected == {path: [2]}
    assert [(group, "exactly" in text) for _, group, text in report.doubts] == [(2, True)]
    assert selected(path, f"key = 'x' OR text = '{TEXTS[SOME]}'") == [0, 1, 2, 3]


def broken(path: str, target: Path) -> Path:
    """The file with the filter of `key` in row group 1 broken."""
    target.write_bytes(Path(path).read_bytes())

    def change(footer: oracle.Struct) -> None:
        oracle.column_metadata(footer, 1, "key").set(oracle.LENGTH, oracle.I32, 50)

    return surgery.rewrite_footer(target, change)


def test_a_broken_filter_is_read_and_named(path, tmp_path):
    target = broken(path, tmp_path / "b.parquet")
    report = parquet_bloom.prune(target, f"key = {KEYS[SOME]}")
    assert report.selected == {str(target): [1, 2]}
    ((file, group, doubt),) = report.doubts
    assert (file, group) == (str(target), 1)
    assert "'key'" in doubt
    assert "bytes" in doubt
    assert parquet_bloom.read_table(target, f"key = {KEYS[150]}")["key"].to_pylist() == [KEYS[150]]
    # Where statistics rule it out, the filter is not probed.
    assert parquet_bloom.prune(target, f"key = {2**41}").doubts == []
    assert parquet_bloom.prune(target, f"key = {KEYS[SOME]} AND sorted = 250").selected == {str(target): [2]}


def test_an_empty_filter_over_values_denies_nothing(path, tmp_path):
    target = tmp_path / "b.parquet"
    data = bytearray(Path(path).read_bytes())
    stored = oracle.filters(path)[1, "key"]
    start = stored.offset + stored.header_size
    data[start : start + len(stored.bitset)] = bytes(len(stored.bitset))
    target.write_bytes(data)
    report = parquet_bloom.prune(target, f"key = {KEYS[150]}")
    assert report.selected == {str(target): [1]}
    assert "no bit is set" in report.doubts[0][2]


def test_encrypted_columns_are_read(tmp_path):
    target = surgery.encrypted(
        tmp_path / "a.parquet", TABLE.select(["key", "text"]), plaintext_footer=True, columns=("key",)
    )
    assert selected(target, f"key = {KEYS[0]}") == [0]
    assert selected(target, "text = 'zzz'") in ([], [0])
    hidden = surgery.encrypted(tmp_path / "b.parquet", TABLE.select(["key"]), plaintext_footer=False, columns=("key",))
    with pytest.raises(errors.EncryptedFileError):
        parquet_bloom.prune(hidden, "key = 5")


# ------------------------------------------------------------------------------------------------------------
# Nulls, floats, types
# ------------------------------------------------------------------------------------------------------------


def one_group(tmp_path: Path, column: pa.Array, **options: Any) -> Path:
    target = tmp_path / "one.parquet"
    pq.write_table(pa.table({"c": column}), target, **options)
    parquet_bloom.embed(target, ["c"])
    return target


@pytest.mark.parametrize("arrow_type", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("statistics", [True, False])
def test_zeros_and_nan(tmp_path, arrow_type, statistics):
    for stored, queried in ((0.0, -0.0), (-0.0, 0.0)):
        column = pa.array(np.array([stored, 1.5])).cast(arrow_type)
        target = one_group(tmp_path, column, write_statistics=statistics)
        assert selected(target, [("c", "=", queried)]) == [0]
        assert selected(target, "c = 0") == [0]
        assert selected(target, "c = 1.25") == []
        assert parquet_bloom.read_table(target, [("c", "=", queried)]).num_rows == 1
    target = one_group(tmp_path, pa.array(np.array([math.nan, 1.5])).cast(arrow_type), write_statistics=statistics)
    assert selected(target, [("c", "=", math.nan)]) == [0]
    assert parquet_bloom.read_table(target, [("c", "=", math.nan)]).num_rows == 1
    assert selected(target, "c = 1.5") == [0]


def test_nothing_but_nulls(tmp_path):
    for statistics in (True, False):
        target = one_group(tmp_path, pa.array([None, None], pa.int64()), write_statistics=statistics)
        assert selected(target, "c = 5") == []  # by its dictionary, which is empty, without statistics
        assert parquet_bloom.read_table(target, "c = 5").num_rows == 0


TYPED = [
    (pa.array([Decimal("1.25"), Decimal("7.50")], pa.decimal128(9, 2)), Decimal("1.25"), Decimal("1.26")),
    (pa.array([Decimal("1.25"), Decimal("7.50")], pa.decimal256(50, 2)), Decimal("1.25"), Decimal("1.26")),
    (pa.array([dt.date(2020, 1, 1), dt.date(2021, 1, 1)]), dt.date(2020, 1, 1), dt.date(2020, 6, 1)),
    (pa.array([dt.time(1), dt.time(3)], pa.time32("ms")), dt.time(1), dt.time(2)),
    (
        pa.array([dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)], pa.timestamp("ms")),
        dt.datetime(2020, 1, 1),
        dt.datetime(2020, 6, 1),
    ),
    (
        pa.array([5, 2**62], pa.timestamp("ns")),
        pa.scalar(5, pa.timestamp("ns")),
        pa.scalar(6, pa.timestamp("ns")),
    ),
    (
        pa.array([5, 2**40], pa.timestamp("us", "UTC")),
        dt.datetime(1970, 1, 1, 0, 0, 0, 5, dt.UTC),
        dt.datetime(1970, 1, 1, 0, 0, 0, 6, dt.UTC),
    ),
    (pa.array([b"a" * 16, b"z" * 16], pa.binary(16)), b"a" * 16, b"b" * 16),
    (pa.array([1, 255], pa.uint8()), 1, 2),
    (pa.array([1, 2**64 - 1], pa.uint64()), 2**64 - 1, 2**64 - 2),
    (pa.array([1, 2**32 - 1], pa.uint32()), 2**32 - 1, 2**32 - 2),
    (pa.array(["", "zz"]), "", "a"),
]


@pytest.mark.parametrize(("column", "there", "not_there"), TYPED, ids=[str(column.type) for column, _, _ in TYPED])
def test_types(tmp_path, column, there, not_there):
    """Absent values lie between the bounds, so that it is the filter which denies them."""
    target = one_group(tmp_path, column)
    assert selected(target, [("c", "=", there)]) == [0]
    report = parquet_bloom.prune(target, [("c", "=", not_there)])
    assert report.skipped_by == {"filter": 1}
    wanted = there if isinstance(there, pa.Scalar) else pa.scalar(there, column.type)  # Python has no nanoseconds
    found = parquet_bloom.read_table(target, [("c", "=", there)])["c"].combine_chunks()
    assert found.equals(column.filter(pa.array([value.equals(wanted) for value in column])))


def test_int96(tmp_path):
    moments = [dt.datetime(1, 1, 1), dt.datetime(2020, 1, 1), dt.datetime(9999, 12, 31)]
    target = one_group(tmp_path, pa.array(moments, pa.timestamp("us")), use_deprecated_int96_timestamps=True)
    for moment in moments:
        assert selected(target, [("c", "=", moment)]) == [0]
        assert parquet_bloom.dataset(target).scan([("c", "=", moment)]).count_rows() == 1
    assert parquet_bloom.read_table(target, [("c", "=", moments[1])])["c"].to_pylist() == [moments[1]]
    assert selected(target, [("c", "=", dt.datetime(1754, 8, 30, 22, 43, 41, 128654))]) == []


def test_time_zones(tmp_path):
    utc = dt.datetime(2020, 1, 1, 11, tzinfo=dt.UTC)
    target = one_group(tmp_path, pa.array([utc, utc + dt.timedelta(days=300)], pa.timestamp("us", "UTC")))
    where = "c = '2020-01-01 12:00:00'"
    assert selected(target, where) == []
    assert selected(target, where, timezone="Europe/Berlin") == [0]
    assert parquet_bloom.read_table(target, where, timezone="Europe/Berlin").num_rows == 1
    gap = "c = '2020-03-29 02:30:00'"
    assert selected(target, gap, timezone="Europe/Berlin") == [0]  # no such time: nothing can be said
    assert "exactly" in parquet_bloom.prune(target, gap, timezone="Europe/Berlin").doubts[0][2]


# ------------------------------------------------------------------------------------------------------------
# Statistics
# ------------------------------------------------------------------------------------------------------------


def stats(low: Any = None, high: Any = None, legacy_low: Any = None, legacy_high: Any = None) -> Statistics:
    return Statistics(None, low, high, legacy_low, legacy_high)


def le(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "little", signed=value < 0)


I32, U32, F64, TEXT = (
    from_arrow(pa.int32()),
    from_arrow(pa.uint32()),
    from_arrow(pa.float64()),
    from_arrow(pa.string()),
)
DECIMAL = from_arrow(pa.decimal128(9, 2))


@pytest.mark.parametrize(
    ("statistics", "column_type", "ordered", "expected"),
    [
        (stats(le(-5), le(7)), I32, True, (-5, 7)),
        (stats(le(-5)), I32, True, (-5, None)),
        (stats(None, le(7)), I32, True, (None, 7)),
        (stats(), I32, True, (None, None)),
        (stats(le(-5), le(7)), I32, False, (-5, 7)),  # signed numbers have one order only
        (stats(le(7), le(-5)), I32, True, (None, None)),  # the wrong way round
        (stats(b"\x01", le(7)), I32, True, (None, 7)),  # no INT32
        (stats(None, None, le(-5), le(7)), I32, True, (-5, 7)),
        (stats(le(1), None, le(-5), le(7)), I32, True, (1, None)),  # the newer fields alone
        (stats(le(1), le(2**32 - 1)), U32, True, (1, 2**32 - 1)),
        (stats(le(1), le(2**32 - 1)), U32, False, (None, None)),
        (
            stats(None, None, le(1), le(2)),
            U32,
            True,
            (None, None),
        ),  # compared as signed, in the deprecated fields
        (replace(stats(b"a", b"b"), max_is_exact=True), TEXT, True, (b"a", b"b")),
        (stats(b"a", b"b"), TEXT, False, (None, None)),
        (stats(None, None, b"a", b"b"), TEXT, True, (None, None)),
        (stats(*(np.float64(v).tobytes() for v in (-1.5, math.inf))), F64, True, (-1.5, math.inf)),
        (stats(*(np.float64(v).tobytes() for v in (math.nan, 1.0))), F64, True, (None, None)),
        (stats(*(np.float64(v).tobytes() for v in (1.0, math.nan))), F64, True, (None, None)),
        (stats((-5).to_bytes(4, "big", signed=True), (7).to_bytes(4, "big")), DECIMAL, True, (-5, 7)),
        (stats(None, None, bytes(4), bytes(4)), DECIMAL, True, (None, None)),
        (stats(bytes(12), bytes(12)), from_parquet("INT96"), True, (None, None)),
        (stats(bytes(12), bytes(12)), from_parquet("FIXED_LEN_BYTE_ARRAY", 12, 21), True, (None, None)),
    ],
)
def test_which_bounds_count(statistics, column_type, ordered, expected):
    assert decode_bounds(statistics, column_type, ordered) == expected


def test_bounds_of_a_foreign_order_are_not_used(path, tmp_path):
    """Without declared orders (or under a later one) only signed numbers have bounds that mean something."""
    target = tmp_path / "b.parquet"
    target.write_bytes(Path(path).read_bytes())
    surgery.rewrite_footer(target, lambda footer: footer.pop(surgery.COLUMN_ORDERS))
    assert parquet_bloom.prune(target, "sorted = 250").skipped_by == {"range": 3}
    assert parquet_bloom.prune(target, "text = 'zzz'").skipped_by == {"filter": 4}
    assert parquet_bloom.prune(path, "text = 'zzz'").skipped_by == {"range": 4}


def test_nan_is_in_no_bounds_and_matches_all_the_same(tmp_path):
    """It is above all numbers and differs from each; writers of statistics leave it out of them."""
    for arrow_type in (pa.float32(), pa.float64()):
        target = one_group(tmp_path, pa.array([1.0, math.nan, 1.0], arrow_type))
        statistics = pq.read_metadata(target).row_group(0).column(0).statistics
        assert (statistics.min, statistics.max) == (1.0, 1.0)
        for where in ("c > 5", "c >= 5", "c != 1", "c NOT IN (1, 2)", "NOT c <= 1"):
            assert selected(target, where) == [0], where
            assert parquet_bloom.read_table(target, where).num_rows == 1, where
        for where in ("c < 0.5", "c <= 0.5"):
            assert selected(target, where) == [], where


@pytest.mark.parametrize("usual", [True, False])
def test_nulls_throughout_are_not_believed_beside_bounds(tmp_path, monkeypatch, usual):
    """Nothing but nulls has neither a smallest nor a largest value: one of the two is wrong."""
    if not usual:  # planned as a file with anything unusual is
        read = of_footers.read_statistics

        def read_unusual(*arguments: Any) -> Any:
            stored = read(*arguments)
            stored["is_usual"] = 0
            return stored

        monkeypatch.setattr(of_footers, "read_statistics", read_unusual)
    target = one_group(tmp_path, pa.array([1, None, 3]))

    def all_null(footer: oracle.Struct) -> None:
        for _, metadata in surgery.each_chunk(footer, "c"):
            metadata.value(surgery.STATISTICS).set(3, oracle.I64, 3)

    surgery.rewrite_footer(target, all_null)
    assert selected(target, "c = 3") == [0]
    assert selected(target, "c IS NOT NULL") == [0]


def test_truncated_bounds(tmp_path):
    """Long texts: the maximum is cut and raised, and still a bound."""
    values = ["a" * 5000, "m" * 5000, "z" * 5000]
    target = one_group(tmp_path, pa.array(values))
    for value in values:
        assert selected(target, [("c", "=", value)]) == [0]


# ------------------------------------------------------------------------------------------------------------
# Many files
# ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Three files, whose column `v` has three types; one lacks the column `w`."""
    folder = tmp_path / "lake"
    (folder / "day=1").mkdir(parents=True)
    tables = {
        "day=1/a.parquet": pa.table({"v": pa.array([5, 70], pa.int32()), "w": ["a", "b"]}),
        "day=1/b.parquet": pa.table({"v": pa.array([5, 2**40], pa.int64()), "w": ["c", "d"]}),
        "c.parquet": pa.table({"v": pa.array([Decimal("5.00"), Decimal("6.50")], pa.decimal128(9, 2))}),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / name)
        parquet_bloom.embed(folder / name, ["v"])
    return folder


def names(report: PruneReport) -> list[str]:
    return sorted(Path(file).name for file in report.selected)


@pytest.mark.parametrize(
    ("literal", "result"),
    [
        (5, ["a.parquet", "b.parquet", "c.parquet"]),
        (70, ["a.parquet"]),
        (2**40, ["b.parquet"]),
        (Decimal("6.5"), ["c.parquet"]),
        (6.5, ["c.parquet"]),
        (6, []),
    ],
)
def test_each_files_own_type_decides(lake, literal, result):
    assert names(parquet_bloom.prune(lake, [("v", "=", literal)])) == result


def test_a_column_that_some_files_lack(lake):
    report = parquet_bloom.prune(lake, "w = 'a'")
    assert report.total_files == 3
    # The statistics of the others speak; the file without the column is read, as it may hold anything.
    assert names(report) == ["a.parquet", "c.parquet"]
    assert [Path(file).name for file, _, doubt in report.doubts if "no such column" in doubt] == ["c.parquet"]
    with pytest.raises(errors.UnknownColumnError, match="nope"):
        parquet_bloom.prune(lake, "nope = 1")


def test_rows_of_many_files(lake):
    files = [lake / "day=1" / name for name in ("a.parquet", "b.parquet")]
    table = parquet_bloom.read_table(files, "v = 5")
    assert table["v"].to_pylist() == [5, 5]
    assert table["w"].to_pylist() == ["a", "c"]
    assert parquet_bloom.read_table(files, "v = 70")["w"].to_pylist() == ["b"]
    assert parquet_bloom.read_table(files, "v = 71").num_rows == 0


def test_ways_to_name_files(lake, tmp_path):
    every = sorted(map(str, lake.rglob("*.parquet")))
    for paths in (lake, str(lake), [lake], every, [lake / "day=1", lake / "c.parquet"]):
        assert sorted(file.path for file in parquet_bloom.prune(paths, "v = 5").files) == every
    assert parquet_bloom.prune(every[0], "v = 5").total_files == 1
    empty = tmp_path / "empty"
    empty.mkdir()
    report = parquet_bloom.prune(empty, "v = 5")
    assert (report.total_files, report.selected) == (0, {})
    with pytest.raises(errors.StorageError):
        parquet_bloom.prune(lake / "nothing", "v = 5")
    memory = fsspec.filesystem("memory")
    memory.pipe("/p/a.parquet", Path(every[0]).read_bytes())
    assert parquet_bloom.prune("/p", "v = 123456", filesystem=memory).selected_files == 0


def test_case(lake):
    assert names(parquet_bloom.prune(lake, "V = 70", case_sensitive=False)) == ["a.parquet"]
    with pytest.raises(errors.UnknownColumnError):
        parquet_bloom.prune(lake, "V = 70")


def test_progress_and_broken_files(lake):
    steps: list[tuple[int, int]] = []
    (lake / "z.parquet").write_bytes(b"this is no Parquet file")
    with pytest.raises(errors.NotParquetError):
        parquet_bloom.prune(lake, "v = 5")
    seen: list[errors.ParquetBloomError] = []
    report = parquet_bloom.prune(lake, "v = 5", progress=lambda *step: steps.append(step), on_error=seen.append)
    assert report.total_files == 3
    assert [Path(error.path or "").name for error in seen] == ["z.parquet"]
    assert steps == [(i, 4) for i in range(1, 5)]


@pytest.mark.parametrize("marker", ["_delta_log", "_spark_metadata", ".hoodie"])
def test_tables_are_refused(lake, marker):
    (lake / marker).mkdir()
    for call in (parquet_bloom.prune, parquet_bloom.read_table):
        with pytest.raises(errors.ManagedTableError):
            call(lake, "v = 5")


@pytest.mark.parametrize("where", ["", "v >", "v SIMILAR TO 'x'", 5, None, [("v", "~", 1)], [("v", "=")]])
def test_predicates_that_are_none(lake, where):
    with pytest.raises(errors.PredicateError):
        parquet_bloom.prune(lake, where)


def test_empty_files_and_row_groups(tmp_path):
    target = tmp_path / "a.parquet"
    with pq.ParquetWriter(target, TABLE.schema) as writer:
        writer.write_table(TABLE[:0])
        writer.write_table(TABLE[:5])
    report = parquet_bloom.prune(target, f"key = {KEYS[0]}")
    assert report.selected_row_groups == 1
    none = tmp_path / "b.parquet"
    pq.ParquetWriter(none, TABLE.schema).close()
    report = parquet_bloom.prune(none, "key = 5")
    assert (report.total_files, report.total_row_groups) == (1, 0)
    assert parquet_bloom.read_table(none, "key = 5").schema.equals(TABLE.schema)
    assert parquet_bloom.read_table([none, target], f"key = {KEYS[0]}").num_rows == 1

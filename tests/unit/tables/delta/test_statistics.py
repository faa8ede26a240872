"""Which files the log of a Delta table rules out: never one that has a row, whoever wrote the log."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.random_cases.table_statistics import COLUMN, check_column, find_impossible
from support.scale import scaled
from support.writers.delta_log import add, beginning, column, commit, struct_of

from parquet_bloom.predicate.tree import Compare, Equal, In, IsNotNull, IsNull, Node, NotEqual
from parquet_bloom.tables.delta.delta_table import delta

deltalake = pytest.importorskip("deltalake")
UTC = dt.UTC


def table(root: Path, kind: Any, statistics: list[Any], **metadata: Any) -> Path:
    """A table with one column and a file for each of the statistics, a.parquet and so on."""
    features = ["timestampNtz"] if kind == "timestamp_ntz" else None
    files = [add(f"{chr(97 + i)}.parquet", stats=stats) for i, stats in enumerate(statistics)]
    commit(root, 0, [*beginning([column(COLUMN, kind, **metadata)], features=features), *files])
    return root


def bounds(low: Any, high: Any, nulls: int = 0, records: int = 10) -> dict[str, Any]:
    return {
        "numRecords": records,
        "minValues": {COLUMN: low},
        "maxValues": {COLUMN: high},
        "nullCount": {COLUMN: nulls},
    }


def ruled_out(root: Path, node: Node, name: str = COLUMN) -> str:
    """The letters of the files that are ruled out."""
    paths = find_impossible(delta(root).read_snapshot(), name, node)
    return "".join(sorted(Path(path).stem for path in paths))


def test_integers_and_dates(tmp_path: Path) -> None:
    root = table(tmp_path / "i", "long", [bounds(1, 5), bounds(-(2**63), 0), bounds(6, 2**63 - 1)])
    assert ruled_out(root, Equal(COLUMN, 5)) == "bc"
    assert ruled_out(root, Compare(COLUMN, ">", 5)) == "ab"
    assert ruled_out(root, Equal(COLUMN, 2**63 - 1)) == "ab"
    assert ruled_out(root, In(COLUMN, (0, 6))) == "a"
    root = table(tmp_path / "d", "date", [bounds("2024-01-01", "2024-01-31"), bounds("0001-01-01", "9999-12-31")])
    assert ruled_out(root, Equal(COLUMN, dt.date(2024, 2, 1))) == "a"
    assert ruled_out(root, Equal(COLUMN, dt.date(2024, 1, 31))) == ""
    root = table(tmp_path / "same", "integer", [bounds(7, 7), bounds(7, 8)])
    assert ruled_out(root, NotEqual(COLUMN, 7)) == "a"


@pytest.mark.parametrize(("kind", "zone"), [("timestamp", UTC), ("timestamp_ntz", None)])
def test_timestamps_are_cut_to_milliseconds(tmp_path: Path, kind: str, zone: Any) -> None:
    end = "Z" if zone else ""
    cut = [
        ("2024-01-01T00:00:00.000", "2024-01-01T12:00:00.123"),
        ("1969-01-01T00:00:00.500", "1969-12-31T23:59:59.999"),
    ]
    root = table(tmp_path / "t", kind, [bounds(low + end, high + end) for low, high in cut])

    def at(text: str) -> dt.datetime:
        return dt.datetime.fromisoformat(text).replace(tzinfo=zone)

    assert ruled_out(root, Equal(COLUMN, at("2024-01-01T12:00:00.123999"))) == "b"
    assert ruled_out(root, Compare(COLUMN, ">", at("2024-01-01T12:00:00.123456"))) == "b"
    assert ruled_out(root, Equal(COLUMN, at("2024-01-01T12:00:00.124001"))) == "ab"
    assert ruled_out(root, Compare(COLUMN, "<", at("2024-01-01T00:00:00.000000"))) == "a"
    # Before 1970 the lower bound may have been cut towards zero.
    assert ruled_out(root, Equal(COLUMN, at("1969-01-01T00:00:00.499001"))) == "a"
    assert ruled_out(root, Equal(COLUMN, at("1969-01-01T00:00:00.498000"))) == "ab"


def test_times_of_other_calendars(tmp_path: Path) -> None:
    early = [bounds("1500-01-01", "1500-01-02"), bounds("1500-01-01", "1600-01-01"), bounds("1582-10-15", "1600-01-01")]
    root = table(tmp_path / "d", "date", early)
    assert ruled_out(root, Equal(COLUMN, dt.date(1500, 1, 12))) == "c"
    assert ruled_out(root, Equal(COLUMN, dt.date(1700, 1, 1))) == "bc"
    early = [bounds(f"{low}-01-01T00:00:00Z", f"{high}-01-01T00:00:00Z") for low, high in ((1850, 1860), (1850, 1950))]
    root = table(tmp_path / "t", "timestamp", early)
    assert ruled_out(root, Equal(COLUMN, dt.datetime(1840, 1, 1, tzinfo=UTC))) == ""
    assert ruled_out(root, Equal(COLUMN, dt.datetime(1960, 1, 1, tzinfo=UTC))) == "b"


def test_timestamps_that_cannot_be_understood(tmp_path: Path) -> None:
    texts = ["+10000-01-01T00:00:00Z", "1700000000000", "soon", ""]
    root = table(tmp_path / "t", "timestamp", [bounds(text, text) for text in texts])
    assert ruled_out(root, Equal(COLUMN, dt.datetime(1800, 1, 1, tzinfo=UTC))) == ""


def test_decimals_are_not_believed(tmp_path: Path) -> None:
    root = tmp_path / "made"
    value = Decimal("1234567890123456.78")
    deltalake.write_deltalake(root, pa.table({COLUMN: pa.array([value], pa.decimal128(18, 2))}))
    snapshot = delta(root).read_snapshot()
    assert find_impossible(snapshot, COLUMN, Equal(COLUMN, value)) == set()
    assert len(find_impossible(snapshot, COLUMN, IsNull(COLUMN))) == 1  # the null count is
    root = table(tmp_path / "text", "decimal(18,2)", ['{"numRecords":1,"minValues":{"c":1.10},"maxValues":{"c":1.20}}'])
    assert ruled_out(root, Equal(COLUMN, Decimal("5.00"))) == ""


def test_floats(tmp_path: Path) -> None:
    root = table(
        tmp_path / "d", "double", [bounds(0.1, 0.3), bounds(-0.0, 0.0), bounds("NaN", "NaN"), bounds(1, "NaN")]
    )
    assert ruled_out(root, Equal(COLUMN, 0.5)) == "abd"
    assert ruled_out(root, Equal(COLUMN, -0.0)) == "ad"
    assert ruled_out(root, Compare(COLUMN, ">", 7.0)) == ""  # NaN is above all
    assert ruled_out(root, Equal(COLUMN, math.nan)) == ""
    assert ruled_out(root, Compare(COLUMN, "<", -1.0)) == "abd"
    assert ruled_out(root, Equal(COLUMN, math.nextafter(0.3, 1))) == "bd"  # not every parser rounds right
    root = table(tmp_path / "f", "float", [bounds(3.4, 3.4), bounds(3.4000000953674316, 3.4000000953674316)])
    for value in (3.4, 3.4000000953674316):
        assert ruled_out(root, Equal(COLUMN, value)) == ""
    assert ruled_out(root, Equal(COLUMN, 3.5)) == "ab"


def test_columns_whose_type_was_changed(tmp_path: Path) -> None:
    changes = [{"toType": "double", "fromType": "float", "tableVersion": 1}]
    root = table(tmp_path / "d", "double", [bounds(3.4, 3.4)], **{"delta.typeChanges": changes})
    assert ruled_out(root, Equal(COLUMN, 3.4000000953674316)) == ""
    assert ruled_out(root, Equal(COLUMN, 100.0)) == ""
    assert ruled_out(root, IsNull(COLUMN)) == "a"
    changes = [{"toType": "long", "fromType": "integer", "tableVersion": 1}]
    root = table(tmp_path / "i", "long", [bounds(1, 2)], **{"delta.typeChanges": changes})
    assert ruled_out(root, Equal(COLUMN, 5)) == ""


def test_texts_are_cut(tmp_path: Path) -> None:
    start = "a" * 32
    cut = [
        bounds(start, start + "\N{REPLACEMENT CHARACTER}"),  # before U+10000, or before anything else
        bounds(start, start[:31] + "?\N{REPLACEMENT CHARACTER}"),  # between the halves of a surrogate pair
        bounds(start, start + "\x7f"),
        bounds(start, start + "\U0010ffff"),
        bounds("", start),
    ]
    root = table(tmp_path / "s", "string", cut)
    assert ruled_out(root, Equal(COLUMN, start + "\U0001f600")) == "c"
    assert ruled_out(root, Equal(COLUMN, start[:31] + "\U0001f600")) == "acde"
    assert ruled_out(root, Equal(COLUMN, start + "z" * 99)) == ""  # the last bound may be the beginning of it
    assert ruled_out(root, Equal(COLUMN, "b")) == "abcde"
    assert ruled_out(root, Equal(COLUMN, start)) == ""
    assert ruled_out(root, Compare(COLUMN, "<", "")) == "abcde"


@pytest.mark.parametrize("length", [16, 32, 64])
def test_texts_are_cut_without_a_sign(length: int, tmp_path: Path) -> None:
    """Some writers neither round bounds up nor mark those that are cut: what begins with one is within."""
    start = "\N{GREEK SMALL LETTER ALPHA}b" * (length // 2)
    root = table(tmp_path / "s", "string", [bounds(start, start), bounds("a", "b")])
    for operator in ("=", ">", ">="):
        leaf = Equal(COLUMN, start + "z") if operator == "=" else Compare(COLUMN, operator, start + "z")
        assert ruled_out(root, leaf) == "b", operator
    assert ruled_out(root, NotEqual(COLUMN, start)) == ""  # the values need not be the bound
    assert ruled_out(root, Equal(COLUMN, start[:-1] + "c")) == "ab"
    assert ruled_out(root, Equal(COLUMN, "bc")) == "ab"  # a short bound is not cut


def test_null_counts(tmp_path: Path) -> None:
    counts = [
        {"numRecords": 4, "nullCount": {COLUMN: 0}},
        {"numRecords": 4, "nullCount": {COLUMN: 4}},
        {"numRecords": 4, "nullCount": {COLUMN: 2}},
        {"numRecords": 4, "nullCount": {COLUMN: 5}},
        {"nullCount": {COLUMN: 3}},
        {"numRecords": 4},
        {"numRecords": 4, "tightBounds": False, "nullCount": {COLUMN: 4}},
        {"numRecords": 4, "tightBounds": False, "nullCount": {COLUMN: 0}},
        {"numRecords": 0, "nullCount": {COLUMN: 0}},
        {"numRecords": -1, "nullCount": {COLUMN: -1}},
    ]
    root = table(tmp_path / "n", "long", counts)
    assert ruled_out(root, IsNull(COLUMN)) == "ahi"
    assert ruled_out(root, IsNotNull(COLUMN)) == "bgi"
    assert ruled_out(root, Equal(COLUMN, 1)) == "bgi"


def test_files_without_statistics(tmp_path: Path) -> None:
    statistics = [None, "{}", '{"minValues":{}}', bounds(1, 2)]
    assert ruled_out(table(tmp_path / "a", "long", statistics), Equal(COLUMN, 9)) == "d"
    for number, broken in enumerate(
        ["", "null", "[]", "{", '{"minValues":{"c":"x"}}']
    ):  # deltalake believes nothing then
        assert ruled_out(table(tmp_path / f"broken {number}", "long", [broken, *statistics]), Equal(COLUMN, 1)) == ""
    assert ruled_out(table(tmp_path / "b", "long", [None, None]), Equal(COLUMN, 9)) == ""
    snapshot = delta(table(tmp_path / "c", "long", [])).read_snapshot()
    assert len(snapshot.files) == 0
    assert find_impossible(snapshot, COLUMN, Equal(COLUMN, 9)) == set()


def test_fields_of_structs(tmp_path: Path) -> None:
    inner = struct_of(column("b", "long"), column("l", {"type": "array", "elementType": "long", "containsNull": True}))
    fields = [column("a", inner), column("x.y", "long"), column("x", struct_of(column("y", "long")))]
    stats = {
        "numRecords": 2,
        "minValues": {"a": {"b": 1}, "x.y": 1, "x": {"y": 100}},
        "maxValues": {"a": {"b": 2}, "x.y": 2, "x": {"y": 200}},
        "nullCount": {"a": {"b": 0, "l": 0}, "x.y": 0, "x": {"y": 0}},
    }
    commit(tmp_path, 0, [*beginning(fields), add("a.parquet", stats=stats)])
    assert ruled_out(tmp_path, Equal(COLUMN, 3), "a.b") == "a"
    assert ruled_out(tmp_path, Equal(COLUMN, 2), "a.b") == ""
    assert ruled_out(tmp_path, IsNull(COLUMN), "a.b") == ""  # the struct's nulls may not have been counted
    for name in ("x.y", "a", "a.l", "x", "nothing", ""):  # two columns are called x.y
        assert delta(tmp_path).read_snapshot().find_statistics(name) is None


@pytest.mark.parametrize("mode", ["name", "id"])
def test_statistics_are_under_physical_names(tmp_path: Path, mode: str) -> None:
    fields = [column("b", "long", 1), column("c-1", "long", 2), column("s", struct_of(column("b", "long", 4)), 3)]
    stats = {
        "numRecords": 2,
        "minValues": {"c-1": 1, "c-2": 100, "c-3": {"c-4": 7}, "b": 9},
        "maxValues": {"c-1": 2, "c-2": 200, "c-3": {"c-4": 8}, "b": 9},
    }
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "4"}
    commit(tmp_path, 0, [*beginning(fields, (), configuration, ["columnMapping"]), add("a.parquet", stats=stats)])
    assert ruled_out(tmp_path, Equal(COLUMN, 2), "b") == ""
    assert ruled_out(tmp_path, Equal(COLUMN, 9), "b") == "a"
    assert ruled_out(tmp_path, Equal(COLUMN, 150), "c-1") == ""
    assert ruled_out(tmp_path, Equal(COLUMN, 2), "c-1") == "a"
    assert ruled_out(tmp_path, Equal(COLUMN, 7), "s.b") == ""
    assert ruled_out(tmp_path, Equal(COLUMN, 2), "s.b") == "a"


def draw(rng: random.Random, kind: str) -> Any:
    if rng.random() < 0.2:
        return None
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=rng.randrange(-(10**10), 10**10))
    values = {
        "long": lambda: rng.choice([rng.randrange(-5, 5), rng.randrange(-(2**63), 2**63)]),
        "short": lambda: rng.randrange(-300, 300),
        "double": lambda: rng.choice(
            [rng.random(), math.nan, 0.0, -0.0, math.inf, -math.inf, rng.uniform(-1e300, 1e300)]
        ),
        "float": lambda: rng.choice([rng.random(), math.nan, -0.0, rng.uniform(-3, 3)]),
        "string": lambda: "".join(rng.choices("a\x7f\u00e9\uffff\ufffd\U0001f600\U0010ffff", k=rng.randrange(0, 90))),
        "ntz": lambda: moment,
        "nanos": lambda: moment,
        "utc": lambda: moment.replace(tzinfo=UTC),
        "date": lambda: dt.date(2024, 1, 1) + dt.timedelta(days=rng.randrange(-800_000, 800_000) // 2),
        "decimal": lambda: Decimal(rng.randrange(-(10**18), 10**18)).scaleb(-2),
        "boolean": lambda: rng.random() < 0.5,
    }
    return values[kind]()


KINDS = {
    "long": pa.int64(),
    "short": pa.int16(),
    "double": pa.float64(),
    "float": pa.float32(),
    "string": pa.string(),
    "ntz": pa.timestamp("us"),
    "utc": pa.timestamp("us", "UTC"),
    "nanos": pa.timestamp("ns"),
    "date": pa.date32(),
    "decimal": pa.decimal128(20, 2),
    "boolean": pa.bool_(),
}


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(scaled(1)))
def test_no_file_with_a_row_is_ruled_out(tmp_path: Path, seed: int) -> None:
    """Tables by deltalake with random values: the rows of each file decide."""
    rng = random.Random(seed)
    deltalake.DeltaTable.create(tmp_path / "t", pa.schema(list(KINDS.items())))
    for _ in range(6):
        rows = {
            kind: pa.array([draw(rng, kind) for _ in range(rng.randrange(1, 4))], arrow)
            for kind, arrow in KINDS.items()
        }
        least = min(map(len, rows.values()))
        data = {kind: array[:least] for kind, array in rows.items()}
        deltalake.write_deltalake(tmp_path / "t", pa.table(data), mode="append")
    snapshot = delta(tmp_path / "t").read_snapshot()
    files = {file.path: pq.read_table(file.path) for file in snapshot.files}
    total = {}
    for kind in KINDS:
        values = {path: data[kind].cast(KINDS[kind]) for path, data in files.items()}
        total[kind] = check_column(snapshot, kind, values, rng, 80)
    assert all(total[kind] for kind in KINDS), total

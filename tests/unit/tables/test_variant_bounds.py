"""Bounds of paths of Variants in the metadata of tables: what they rule out, and that no row is lost by them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers.delta_log import (
    TYPES,
    add,
    beginning,
    column,
    commit,
    inline_vector,
    struct_of,
    to_z85,
    write_actions,
)
from support.writers.iceberg_tables import HandTable
from support.writers.shredded_variants import MISSING, make_variants, serialize

import parquet_bloom
from parquet_bloom.errors import VariantCastError
from parquet_bloom.predicate.variant_names import parse_evidence
from parquet_bloom.tables.variant_bounds import normalize_path
from parquet_bloom.variant.variant_path import VariantPath, parse_path

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("pyroaring")

FEATURES = ["variantType", "variantShredding", "deletionVectors"]
UTC = dt.UTC
Bounds = Mapping[str, object]
Write = Callable[[Path, Sequence[Any]], Any]


class Verbatim(dict[str, Any]):
    """What is no Variant, and stands in the metadata as it is."""


def to_text(bounds: object) -> Any:
    """Return bounds as a commit has them: filled up to a multiple of four bytes, in Z85."""
    if not isinstance(bounds, dict) or isinstance(bounds, Verbatim):
        return bounds
    data = serialize(bounds)
    return to_z85(data + b"\0" * (-len(data) % 4))


class File:
    """A file of documents, with what its table says of them.

    Parameters
    ----------
    documents : of the rows.
    lower, upper : bounds by normalized paths; anything else as it stands in the metadata; None for none.
    nulls : number of nulls of the column, if it is stated.
    """

    def __init__(self, documents: Sequence[object], lower: Any = None, upper: Any = None, nulls: int | None = None):
        self.documents, self.lower, self.upper, self.nulls = documents, lower, upper, nulls

    def without(self) -> File:
        return File(self.documents)


def write_delta(root: Path, files: Sequence[File], shredding: Any = None, **members: Any) -> Any:
    root.mkdir()
    actions, first = [], 0
    for number, file in enumerate(files):
        path = root / f"{number}.parquet"
        write_rows(path, first, file.documents, shredding)
        statistics: dict[str, Any] = {"numRecords": len(file.documents), "minValues": {}, "maxValues": {}}
        for name, bounds in (("minValues", file.lower), ("maxValues", file.upper)):
            if bounds is not None:
                statistics[name]["v"] = to_text(bounds)
        if file.nulls is not None:
            statistics["nullCount"] = {"v": file.nulls}
        actions.append(add(path.name, path.stat().st_size, statistics, **members))
        first += len(file.documents)
    commit(root, 0, [*beginning([column("id", "long"), column("v", "variant")], features=FEATURES), *actions])
    return parquet_bloom.delta(root)


def write_rows(path: Path, first: int, documents: Sequence[object], shredding: Any = None, name: str = "v") -> None:
    ids = pa.array(range(first, first + len(documents)), pa.int64())
    pq.write_table(pa.table({"id": ids, name: make_variants(documents, shredding)}), path)


def write_iceberg(root: Path, files: Sequence[File]) -> Any:
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "v", "required": False, "type": "variant"},
    ]
    hand = HandTable(root, [fields], version=3)
    entries, first = [], 0
    for file in files:
        ids = pa.array(range(first, first + len(file.documents)), pa.int64())
        metrics: dict[str, Any] = {"values": {2: len(file.documents)}}
        for name, bounds in (("lower", file.lower), ("upper", file.upper)):
            if bounds is not None:
                metrics[name] = {2: serialize(bounds) if isinstance(bounds, dict) else bounds}
        if file.nulls is not None:
            metrics["nulls"] = {2: file.nulls}
        table = pa.table({"id": ids, "v": make_variants(file.documents)})
        entries.append(hand.write_file(table, {"id": 1, "v": 2}, metrics=metrics))
        first += len(file.documents)
    hand.add_snapshot(entries)
    return parquet_bloom.iceberg(hand.write_metadata())


WRITERS: dict[str, Write] = {"delta": write_delta, "iceberg": write_iceberg}


def find_read(table: Any, where: str) -> list[int]:
    """Return the numbers of the files that the table's metadata leaves to be read."""
    plan = parquet_bloom.prune(table, where)
    names = [file.path for file in table.read_snapshot().files]
    ruled_out = [file.path for file in plan.files if file.unopened and file.unopened_by == "table"]
    return [number for number, name in enumerate(names) if name not in ruled_out]


def list_ids(table: Any, where: str) -> list[int]:
    return sorted(parquet_bloom.read_table(table, where, ["id"])["id"].to_pylist())


def get(path: str, target: str, condition: str, kind: str = "try_variant_get") -> str:
    return f"{kind}(v, '{path.replace(chr(39), chr(39) * 2)}', '{target}') {condition}"


A = "$['a']"
DAY, NOON = dt.date(2026, 3, 1), dt.datetime(2026, 3, 1, 12)


def one(value: object, lower: object = MISSING, upper: object = MISSING) -> File:
    """Return a file of one value at `$.a`, with bounds of which each is the value itself unless it is given."""
    low, high = (value if bound is MISSING else bound for bound in (lower, upper))
    return File([{"a": value}], *(None if bound is None else {A: bound} for bound in (low, high)))


@pytest.mark.ci
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize(
    ("target", "value", "other", "within", "outside"),
    [
        ("bigint", 5, 1 << 40, "= 5", "= 6"),
        ("bigint", 5, 1 << 40, "< 6", "BETWEEN 6 AND 70"),
        ("int", 5, 1 << 20, "= 5", "= 6"),
        ("tinyint", -128, 127, "= 127", "= 0"),
        ("string", "ab", "é" * 4, "= 'ab'", "= 'b'"),
        ("string", "x" * 60, "z", "= 'z'", "= 'y'"),
        ("binary", b"\1\2", b"\xff", "= X'FF'", "= X'02'"),
        ("boolean", True, True, "= true", "= false"),
        ("date", DAY, DAY + dt.timedelta(9), "= DATE '2026-03-10'", "= DATE '2026-03-02'"),
        ("timestamp", NOON.replace(tzinfo=UTC), NOON.replace(year=2028, tzinfo=UTC),
         "= TIMESTAMP '2026-03-01 12:00:00+00:00'", "= TIMESTAMP '2027-03-01 12:00:00+00:00'"),
        ("timestamp_ntz", NOON, NOON.replace(year=2028),
         "= TIMESTAMP_NTZ '2026-03-01 12:00:00'", "= TIMESTAMP_NTZ '2027-03-01 12:00:00'"),
        ("decimal(10,2)", decimal.Decimal("1.25"), decimal.Decimal("9"), "= 9.00", "= 2.00"),
        ("decimal(10,2)", decimal.Decimal("1.254"), decimal.Decimal("9.999"), "= 1.25", "= 2.00"),
    ],
)  # fmt: skip
def test_each_type(
    tmp_path: Path, write: Write, target: str, value: object, other: object, within: str, outside: str
) -> None:
    is_believed = write is write_iceberg or target not in ("string", "binary")
    table = write(tmp_path / "t", [one(value), one(other), File([{"a": [1]}])])
    bare = write(tmp_path / "bare", [File([{"a": value}]), File([{"a": other}]), File([{"a": [1]}])])
    assert find_read(table, get("$.a", target, outside)) == ([2] if is_believed else [0, 1, 2])
    assert 2 in find_read(table, get("$.a", target, within)) != [2]
    for condition in (within, outside):
        where = get("$.a", target, condition)
        assert list_ids(table, where) == list_ids(bare, where)
    assert list_ids(table, get("$.a", target, within))
    assert find_read(bare, get("$.a", target, outside)) == [0, 1, 2]


NOT_BELIEVED = {
    "text as a number": ("bigint", one("5", "5", "5"), "= 7"),
    "number as a text": ("string", one(5, 5, 5), "= '7'"),
    "number as a double": ("double", one(5, 5, 5), "= 7"),
    "double as a float": ("float", one(0.5, 0.5, 0.5), "= 7"),
    "decimal as a number": ("bigint", one(decimal.Decimal("5"), *[decimal.Decimal("5")] * 2), "= 7"),
    "date as a time": ("timestamp_ntz", one(DAY, DAY, DAY), "= TIMESTAMP_NTZ '2027-01-01 00:00:00'"),
    "instant as a time": ("timestamp_ntz", one(NOON, *[NOON.replace(tzinfo=UTC)] * 2),
                          "= TIMESTAMP_NTZ '2027-01-01 00:00:00'"),
    "two types": ("bigint", one(5, 5, "5"), "= 4"),
    "a number without room": ("int", one(1 << 40, 5, 1 << 40), "= 4"),
    "a number with an open end": ("int", one(5, 5, None), "= 4"),
    "a decimal without room": ("decimal(3,2)", one(decimal.Decimal("10"), *map(decimal.Decimal, ("5", "10"))), "= 1"),
    "double": ("double", one(5.0, 5.0, 5.0), "= 7"),
    "float": ("float", one(*[np.float32(5)] * 3), "= 7"),
    "NaN": ("double", one(float("nan"), float("nan"), float("nan")), "= 7"),
    "swapped": ("bigint", one(5, 9, 1), "= 20"),
    "an object": ("string", one({"b": 1}, {"b": 1}, {"b": 1}), "= 'x'"),
    "nulls": ("bigint", one(5, [None], [None]), "= 4"),
    "another path": ("bigint", File([{"a": {"b": 5}}], {"$['a']": 1, "$['a']['c']": 1, "a.b": 1, "$.a.b": 1},
                                    {"$['a']": 1, "$['a']['c']": 1, "a.b": 1, "$.a.b": 1}), "= 4"),
    "no object": ("bigint", one(5).without(), "= 4"),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("case", NOT_BELIEVED)
def test_what_says_nothing(tmp_path: Path, write: Write, case: str) -> None:
    target, file, condition = NOT_BELIEVED[case]
    path = "$.a.b" if case == "another path" else "$.a"
    table = write(tmp_path / "t", [file])
    assert find_read(table, get(path, target, condition)) == [0]


DAMAGED: dict[str, Any] = {
    "empty": "",
    "no text": 7,
    "not Z85": "0S&u5~~~~~",
    "no whole group": "0S&u",
    "a struct": Verbatim(metadata="0rSr5", value="0S&u5"),
    "metadata alone": to_z85(b"\1\1\0\4abcd"),
    "cut off": to_text({A: 5})[:-15],
    "another version": to_z85(b"\2" + serialize({A: 5})[1:] + b"\0" * (-len(serialize({A: 5})) % 4)),
    "names outside": to_z85(b"\xd1\xff\xff\xff\xff\0\0\0"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_bounds_say_nothing(tmp_path: Path, case: str) -> None:
    bad = DAMAGED[case]
    files = [File([{"a": 5}], bad, bad), File([{"a": 5}], {A: 5}, bad), File([{"a": 5}], bad, {A: 5}), one(5)]
    table = write_delta(tmp_path / "t", files)
    assert find_read(table, get("$.a", "bigint", "= 4")) == [0, 1, 2]
    assert list_ids(table, get("$.a", "bigint", "= 5")) == [0, 1, 2, 3]


@pytest.mark.parametrize("damaged", [b"", b"\1", b"\1\0\0", b"\2\0\0\0", b"\1\xff\xff\0", serialize({A: 5})[:-3]])
def test_damaged_bounds_of_iceberg_say_nothing(tmp_path: Path, damaged: bytes) -> None:
    files = [File([{"a": 5}], damaged, damaged), File([{"a": 5}], {A: 5}, damaged), one(5)]
    table = write_iceberg(tmp_path / "t", files)
    assert find_read(table, get("$.a", "bigint", "= 4")) == [0, 1]
    assert list_ids(table, get("$.a", "bigint", "= 5")) == [0, 1, 2]


def test_flipped_bytes_end_in_no_error(tmp_path: Path) -> None:
    rng, good = random.Random(5), serialize({A: 5, "$['b']": "text"})
    files = []
    for _ in range(300):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        files.append(File([{"a": 5}], bytes(data), None))
    snapshot = write_iceberg(tmp_path / "t", files).read_snapshot()
    for name in ("v:$.a::bigint", "v:$.b::string"):
        snapshot.find_statistics(name)  # what a flipped number is cannot be told


def test_one_bound_is_enough(tmp_path: Path) -> None:
    table = write_delta(tmp_path / "t", [one(5, 5, None), one(50, None, 50)])
    assert find_read(table, get("$.a", "bigint", "< 3")) == [1]
    assert find_read(table, get("$.a", "bigint", "> 60")) == [0]
    assert find_read(table, get("$.a", "bigint", "= 20")) == [0, 1]


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_conditions_that_may_hold_for_null(tmp_path: Path, write: Write) -> None:
    """A file whose bounds are apart from a value has rows without one, of which a negation or null test is true."""
    table = write(tmp_path / "t", [File([{"a": 5}, {}, None, {"a": None}, MISSING], {A: 5}, {A: 5})])
    for where, rows in {
        get("$.a", "bigint", "IS NULL"): [1, 2, 3, 4],
        f"NOT ({get('$.a', 'bigint', '= 4')})": [0],
        get("$.a", "bigint", "<> 4"): [0],
        get("$.a", "bigint", "IS NOT NULL"): [0],
        f"{get('$.a', 'bigint', '= 4')} OR id = 2": [2],
    }.items():
        assert list_ids(table, where) == rows, where


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_column_of_nulls(tmp_path: Path, write: Write) -> None:
    table = write(tmp_path / "t", [File([MISSING, MISSING], nulls=2), File([MISSING, {"a": 5}], nulls=1)])
    for condition in ("= 5", "IS NOT NULL"):
        where = get("$.a", "bigint", condition)
        assert find_read(table, where) == [1]
        assert list_ids(table, where) == [3]


@pytest.mark.parametrize(
    "name",
    ["a", "it's", 'say "a"', "back\\slash", "tab\there", "line\nend", "\x01", "ünï", "😀", "", "a.b", "']['", "\x7f"],
)
def test_names_are_escaped(tmp_path: Path, name: str) -> None:
    path = VariantPath((name, "n"))
    key = normalize_path(path)
    assert key is not None
    if str(path).startswith(".") or parse_path(str(path)) != path:
        pytest.skip("no text leads there")
    files = [File([{name: {"n": n}}], {key: n}, {key: n}) for n in (5, 50)]
    table = write_iceberg(tmp_path / "t", files)
    where = get(str(path), "bigint", "= 50")
    assert find_read(table, where) == [1]
    assert list_ids(table, where) == [1]


def test_normalized_paths() -> None:
    """As in RFC 9535, table 19, and the example of Delta's protocol."""
    assert normalize_path(VariantPath(())) == "$"
    assert normalize_path(VariantPath(("b", "c"))) == "$['b']['c']"
    assert normalize_path(VariantPath(("'\\\n\x0b\x1f",))) == r"$['\'\\\n\u000b\u001f']"
    assert normalize_path(VariantPath(("a", 1))) is None


def test_the_whole_variant_and_elements(tmp_path: Path) -> None:
    table = write_delta(tmp_path / "t", [File([5, MISSING], {"$": 5}, {"$": 5}), File([[5]], {"$[0]": 5}, {"$[0]": 5})])
    assert find_read(table, get("$", "bigint", "= 4")) == [1]
    assert find_read(table, get("$[0]", "bigint", "= 4")) == [0, 1]


def test_the_example_of_the_protocol(tmp_path: Path) -> None:
    """It has the value in front of the metadata, and no whole groups of characters: Delta does not write that."""
    low = "0S&u501fk+ze0(tB98CpzF6vU0rJl95HpNdvjbtatpi(cu0wW^cTu"
    high = "0S&u500&]LC42A9vqZe}wb#-i1}-a+cT!xdbWhT9cTx}7v<+K"
    documents = [{"a": "min-string", "b": {"c": 1}}, {"a": "variant", "b": {"c": 100}}]
    for end in (None, -3):
        table = write_delta(tmp_path / f"t{end}", [File(documents, low[:end], high[: end and -4])])
        assert find_read(table, get("$.a", "string", "= 'a'")) == [0]
        assert list_ids(table, get("$.b.c", "bigint", "= 100")) == [1]


@pytest.mark.parametrize("shredding", [None, {A: pa.int64()}, {A: pa.string()}], ids=["whole", "shredded", "beside"])
def test_columns_of_checkpoints(tmp_path: Path, shredding: Any) -> None:
    root = tmp_path / "t"
    write_delta(root, [one(5), one(50), one(7)])
    log = root / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    variants = make_variants([{A: value, "$['z']": 1} for value in (5, 50)], shredding)
    for action, variant in zip(actions[2:4], variants.to_pylist(), strict=True):
        del action["add"]["stats"]
        action["add"]["stats_parsed"] = {"numRecords": 1, "minValues": {"v": variant}, "maxValues": {"v": variant}}
    bounds = pa.struct({"v": variants.type})
    parsed = pa.struct({"numRecords": pa.int64(), "minValues": bounds, "maxValues": bounds})
    members = [pa.field(each.name, parsed) if each.name == "stats_parsed" else each for each in TYPES["add"]]
    write_actions(log / f"{0:020}.checkpoint.parquet", actions, TYPES | {"add": pa.struct(members)})
    table = parquet_bloom.delta(root)
    assert find_read(table, get("$.a", "bigint", "= 50")) == [1]
    assert find_read(table, get("$.a", "bigint", "= 7")) == [2]
    assert list_ids(table, get("$.a", "bigint", ">= 7")) == [1, 2]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping(tmp_path: Path, mode: str) -> None:
    """The log has a Variant by its physical name; another column has had the logical one."""
    root = tmp_path / "t"
    root.mkdir()
    actions = []
    for number, value in enumerate((5, 50)):
        path = root / f"{number}.parquet"
        fields = [pa.field("c-1", pa.int64(), metadata={"PARQUET:field_id": "1"})]
        variants = make_variants([{"a": value}])
        fields.append(pa.field("c-2", variants.type, metadata={"PARQUET:field_id": "2"}))
        pq.write_table(pa.table([pa.array([number], pa.int64()), variants], pa.schema(fields)), path)
        bounds = {"c-2": to_text({A: value}), "v": to_text({A: 0})}
        statistics = {"numRecords": 1, "minValues": bounds, "maxValues": bounds}
        actions.append(add(path.name, path.stat().st_size, statistics))
    named = [column("id", "long", 1), column("v", "variant", 2)]
    configuration = {"delta.columnMapping.mode": mode}
    commit(root, 0, [*beginning(named, features=[*FEATURES, "columnMapping"], configuration=configuration), *actions])
    table = parquet_bloom.delta(root)
    assert find_read(table, get("$.a", "bigint", "= 50")) == [1]
    assert list_ids(table, get("$.a", "bigint", "= 50")) == [1]


def test_a_variant_in_a_struct(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    actions = []
    for number, value in enumerate((5, 50)):
        path = root / f"{number}.parquet"
        inner = pa.StructArray.from_arrays([make_variants([{"a": value}])], ["v"])
        pq.write_table(pa.table({"id": pa.array([number], pa.int64()), "s": inner}), path)
        bounds = {"s": {"v": to_text({A: value})}}
        actions.append(add(path.name, path.stat().st_size, {"numRecords": 1, "minValues": bounds, "maxValues": bounds}))
    fields = [column("id", "long"), column("s", struct_of(column("v", "variant")))]
    commit(root, 0, [*beginning(fields, features=FEATURES), *actions])
    assert find_read(parquet_bloom.delta(root), "try_variant_get(s.v, '$.a', 'bigint') = 50") == [1]


def test_a_column_that_has_the_name_of_a_path(tmp_path: Path) -> None:
    """What is asked for may be the column, so nothing is said of either."""
    name = "v:$.a::bigint"
    assert parse_evidence(name) is not None
    root = tmp_path / "t"
    root.mkdir()
    path = root / "0.parquet"
    columns = {"id": pa.array([0], pa.int64()), "v": make_variants([{"a": 5}]), name: pa.array([7], pa.int64())}
    pq.write_table(pa.table(columns), path)
    bounds = {"v": to_text({A: 5}), name: 7}
    statistics = {"numRecords": 1, "minValues": bounds, "maxValues": bounds}
    fields = [column("id", "long"), column("v", "variant"), column(name, "long")]
    commit(root, 0, [*beginning(fields, features=FEATURES), add(path.name, path.stat().st_size, statistics)])
    assert parquet_bloom.delta(root).read_snapshot().find_statistics(name) is None


def test_deleted_rows_leave_bounds_as_they_are(tmp_path: Path) -> None:
    documents = [{"a": value} for value in (5, 6, 7)]
    files = [File(documents, {A: 5}, {A: 7}), File(documents, {A: 5}, {A: 7})]
    table = write_delta(tmp_path / "t", files, deletionVector=inline_vector([0]))
    assert find_read(table, get("$.a", "bigint", "= 8")) == []
    assert list_ids(table, get("$.a", "bigint", "<= 6")) == [1, 4]


def test_a_log_that_is_gone_says_nothing(tmp_path: Path) -> None:
    table = write_delta(tmp_path / "t", [one(5), one(50)])
    snapshot = table.read_snapshot()
    (tmp_path / "t/_delta_log" / f"{0:020}.json").unlink()
    assert snapshot.find_statistics("v:$.a::bigint") is None


@pytest.mark.parametrize("text", ["x" * 16, "x" * 40, "x" * 15 + "é"])
def test_texts_that_writers_cut(tmp_path: Path, text: str) -> None:
    """Not all writers round up what they have cut."""
    table = write_iceberg(tmp_path / "t", [File([{"a": text}], {A: text[:16]}, {A: text[:16]}), one("a")])
    assert list_ids(table, get("$.a", "string", f"= '{text}'")) == [0]
    assert find_read(table, get("$.a", "string", "= 'xy'")) == []


@pytest.mark.parametrize(
    ("write", "target", "seen", "missed", "condition"),
    [
        (write_delta, "string", "m", "z" * 3000, "> 'y'"),
        (write_delta, "double", 1.0, 99.0, "= 99"),
        (write_iceberg, "double", 1.0, 99.0, "= 99"),
        (write_iceberg, "float", np.float32(1), np.float32(99), "= 99"),
    ],
)
def test_bounds_of_some_row_groups(
    tmp_path: Path, write: Write, target: str, seen: object, missed: object, condition: str
) -> None:
    """Row groups of which a footer has no statistics, because of a long text or a NaN, are not in a writer's bounds."""
    table = write(tmp_path / "t", [File([{"a": seen}, {"a": missed}], {A: seen}, {A: seen})])
    assert list_ids(table, get("$.a", target, condition)) == [1]


def test_binaries_that_writers_cut(tmp_path: Path) -> None:
    """Iceberg's up to 1.11 cut upper bounds of binaries of shredded Variants without rounding them up."""
    value = b"x" * 20
    table = write_iceberg(tmp_path / "t", [File([{"a": value}], {A: value[:16]}, {A: value[:16]})])
    assert list_ids(table, get("$.a", "binary", f"= X'{value.hex()}'")) == [0]


def test_old_dates_of_delta(tmp_path: Path) -> None:
    """Of days before the Gregorian calendar writers have had several numbers."""
    old = dt.date(1500, 1, 1)
    assert find_read(write_delta(tmp_path / "d", [one(old)]), get("$.a", "date", "= DATE '1500-01-08'")) == [0]
    assert find_read(write_iceberg(tmp_path / "i", [one(old)]), get("$.a", "date", "= DATE '1500-01-08'")) == []


def test_shredded_files_are_ruled_out_unopened(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = write_delta(root, [one(5), one(50)], {"a": pa.int64()})
    (root / "0.parquet").write_bytes(b"not a Parquet file")
    assert find_read(table, "v:a::BIGINT = 50") == [1]


# --------------------------------------------------------------------------------------------- random tables


KINDS: dict[str, Callable[[random.Random], Any]] = {
    "bigint": lambda rng: rng.choice([rng.randrange(-9, 9), rng.randrange(-300, 300), 1 << 40]),
    "int": lambda rng: rng.choice([rng.randrange(-9, 9), rng.randrange(-300, 300), 1 << 40]),
    "tinyint": lambda rng: rng.choice([rng.randrange(-9, 9), rng.randrange(-130, 130)]),
    "double": lambda rng: rng.choice([rng.randrange(-9, 9) / 2, -0.0, 0.0]),
    "string": lambda rng: rng.choice(["", "a", "x" * 31 + rng.choice(["😀", "y"]) + "z" * rng.randrange(3), "é"]),
    "boolean": lambda rng: bool(rng.randrange(2)),
    "date": lambda rng: DAY + dt.timedelta(rng.randrange(-9, 9)),
    "timestamp_ntz": lambda rng: NOON + dt.timedelta(hours=rng.randrange(-9, 9)),
    "decimal(5,1)": lambda rng: decimal.Decimal(rng.randrange(-9999, 9999)).scaleb(-rng.randrange(3)),
}
LITERALS: dict[str, Callable[[Any], str]] = {
    "string": lambda value: "'" + value.replace("'", "''") + "'",
    "boolean": lambda value: str(value).lower(),
    "date": lambda value: f"DATE '{value}'",
    "timestamp_ntz": lambda value: f"TIMESTAMP_NTZ '{value}'",
    "decimal(5,1)": lambda value: str(round(value, 1)),
}


def draw_files(rng: random.Random, names: Sequence[str]) -> list[File]:
    """Return files with such bounds as writers may give them: wide, one-sided, of some paths, cut."""
    files = []
    for _ in range(rng.randrange(1, 6)):
        documents: list[dict[str, object]] = [{} for _ in range(rng.randrange(1, 6))]
        lower: dict[str, object] = {}
        upper: dict[str, object] = {}
        for name in names:
            kinds = rng.sample(sorted(KINDS), 1 if rng.random() < 0.8 else 2)
            values = []
            for document in documents:
                if rng.random() < 0.8:
                    document[name] = rng.choice([KINDS[rng.choice(kinds)](rng)] * 5 + [None])
                    values.append(document[name])
            present = [value for value in values if value is not None]
            key = normalize_path(VariantPath((name,)))
            assert key is not None
            if present and len({type(value) for value in present}) == 1 and rng.random() < 0.9:
                if rng.random() < 0.9:
                    lower[key] = cut(min(present), upper=False)
                if rng.random() < 0.9:
                    upper[key] = cut(max(present), upper=True)
        files.append(File(documents, lower or None, upper or None, rng.choice([None, 0])))
    return files


def cut(value: Any, upper: bool) -> Any:
    """Return a text as Delta's writer cuts it; other values as they are."""
    if not isinstance(value, str) or len(value) <= 32:
        return value
    halves = value.encode("utf-16-be")[:64].decode("utf-16-be", "replace").replace("\ufffd", "?")
    return halves + "\U0010ffff" * upper


def outcome(table: Any, where: str) -> list[int] | type[Exception]:
    try:
        return list_ids(table, where)
    except VariantCastError:
        return VariantCastError


@pytest.mark.ci
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("seed", range(6))
def test_random_tables(tmp_path: Path, write: Write, seed: int) -> None:
    """Rows, and errors of casts, are those of the same table without bounds."""
    rng, names, skipped = random.Random(seed), ["a", "it's"], 0
    for number in range(3):
        files = draw_files(rng, names)
        table = write(tmp_path / f"with{number}", files)
        bare = write(tmp_path / f"bare{number}", [file.without() for file in files])
        for _ in range(25):
            target = rng.choice(sorted(KINDS))
            literal = LITERALS.get(target, str)(KINDS[target](rng))
            condition = f"{rng.choice(['=', '=', '<', '<=', '>', '>='])} {literal}"
            if rng.random() < 0.1:
                condition = rng.choice(["IS NOT NULL", "IS NULL", f"<> {literal}"])
            kind = rng.choice(["try_variant_get", "try_variant_get", "variant_get"])
            where = get(f'$["{rng.choice(names)}"]', target, condition, kind)
            if rng.random() < 0.3:
                where = f"{rng.choice(['', 'NOT '])}({where}) {rng.choice(['AND', 'OR'])} id < {rng.randrange(9)}"
            assert outcome(table, where) == outcome(bare, where), where
            skipped += len(files) - len(find_read(table, where))
    assert skipped

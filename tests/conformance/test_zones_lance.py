"""Lance's indexes, made by pylance: read, queried, and compared bit for bit with ours."""

from __future__ import annotations

import datetime as dt
import math
import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.writers.zone_tables import answered

from parquet_bloom import zones
from parquet_bloom.errors import ParquetBloomError, UnsupportedTypeError

lance = pytest.importorskip("lance", reason="pylance is missing")
IndexConfig = pytest.importorskip("lance.indices").IndexConfig

ROWS = 700
RNG = random.Random(14)


def integers(bits, signed):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return [low, high, 0, *(RNG.randint(low, high) for _ in range(ROWS))]


def counts(arrow_type, most):
    storage = pa.int32() if arrow_type.bit_width == 32 else pa.int64()
    return pa.array([RNG.randrange(most) for _ in range(ROWS)], storage).cast(arrow_type)


TEXTS = ["", "é", "日本語", *(f"text {RNG.randrange(10**9)}" * RNG.randint(1, 4) for _ in range(ROWS))]
TYPES = {
    **{f"int{bits}": pa.array(integers(bits, True), f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": pa.array(integers(bits, False), f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{
        f"float{bits}": pa.array(
            [0.0, -0.0, math.nan, math.inf, *(RNG.gauss(0, 9) for _ in range(ROWS))], f"float{bits}"
        )
        for bits in (32, 64)
    },
    "string": pa.array(TEXTS, pa.string()),
    "large_string": pa.array(TEXTS, pa.large_string()),
    "binary": pa.array([b"\0\xff", *map(str.encode, TEXTS)], pa.binary()),
    "large_binary": pa.array([b"\0\xff", *map(str.encode, TEXTS)], pa.large_binary()),
    "date32": counts(pa.date32(), 40_000),
    "date64": pa.array([RNG.randrange(40_000) * 86_400_000 for _ in range(ROWS)], pa.int64()).cast(pa.date64()),
    **{f"time32 {unit}": counts(pa.time32(unit), 86_400) for unit in ("s", "ms")},
    **{f"time64 {unit}": counts(pa.time64(unit), 86_400_000) for unit in ("us", "ns")},
    **{f"timestamp {unit}": counts(pa.timestamp(unit), 10**9) for unit in ("s", "ms", "us", "ns")},
    "timestamp us UTC": counts(pa.timestamp("us", "UTC"), 10**15),
}


def with_nulls(array):
    return pa.concat_arrays([array.slice(0, 300), pa.nulls(3, array.type), array.slice(300)])


def indexed(path, table, items, probability, columns=("c",), **options):
    dataset = lance.write_dataset(table, path, **options)
    for column in columns:
        config = IndexConfig("bloomfilter", {"number_of_items": items, "probability": probability})
        dataset.create_scalar_index(column, config)
    return lance.dataset(path)


def physical_rows(dataset, column="c"):
    """{fragment: the values of its physical rows that are not deleted, by row offset}."""
    results = {}
    for fragment in dataset.get_fragments():
        table = fragment.to_table(columns=[column], with_row_address=True)
        offsets = [address & 0xFFFFFFFF for address in table["_rowaddr"].to_pylist()]
        results[fragment.fragment_id] = (np.array(offsets), table[column].combine_chunks())
    return results


def of_zone(rows, zone):
    offsets, values = rows[int(zone["fragment_id"])]
    start, length = int(zone["zone_start"]), int(zone["zone_length"])
    return values.filter(pa.array((offsets >= start) & (offsets < start + length)))


@pytest.mark.parametrize("name", TYPES)
def test_filters_are_bit_for_bit_those_of_lance(name, tmp_path):
    values = with_nulls(TYPES[name])
    path = str(tmp_path / "set.lance")
    dataset = indexed(path, pa.table({"c": values}), 100, 0.01, max_rows_per_file=450)
    rows = physical_rows(dataset)
    with zones.open(path) as index:
        assert (index.column, index.value_type, index.items, index.probability) == ("c", values.type, 100, 0.01)
        assert index.uncovered == []
        table = index.to_table()
        assert {*index.zones["fragment_id"].tolist()} == {*rows}
        for zone, bitset in zip(index.zones, table["bloom_filter_data"].to_pylist(), strict=True):
            there = of_zone(rows, zone)
            assert len(there) == zone["zone_length"]
            assert bitset == zones.lance_filter(there, 100, 0.01)
            assert zone["has_null"] == (there.null_count > 0)
        for value in [*values.drop_null()[:5], *values.drop_null()[-5:]]:
            positions = {(fragment, start) for fragment, start, _ in answered(index.equals(value))}
            for zone in index.zones:
                if any(each == value for each in of_zone(rows, zone)):
                    assert (zone["fragment_id"], zone["zone_start"]) in positions
        is_nan = pa.types.is_floating(values.type)
        assert is_nan or len(answered(index.equals(values[0]))) < len(index)


@pytest.mark.parametrize(
    ("items", "probability"), [(1, 0.9), (50, 0.3), (64, 0.0001), (500, 0.01), (1000, 0.05), (8192, 0.00057)]
)
def test_sizes_are_those_of_lance(items, probability, tmp_path):
    values = pa.array(range(2500))
    path = str(tmp_path / "set.lance")
    indexed(path, pa.table({"c": values.slice(0, 300 if items == 1 else 2500)}), items, probability)
    with zones.open(path) as index:
        size = zones.lance_num_bytes(items, probability)
        assert {len(each) for each in index.to_table()["bloom_filter_data"].to_pylist()} == {size}
        assert (index.items, index.probability) == (items, probability)
        last = index.to_table()["bloom_filter_data"][-1].as_py()
        zone = index.zones[-1]
        there = values.slice(int(zone["zone_start"]), int(zone["zone_length"]))
        assert last == zones.lance_filter(there, items, probability)


@pytest.fixture
def worn(tmp_path):
    """A dataset of several fragments whose rows were deleted here and there, and its values."""
    values = [None if i % 50 == 7 else i for i in range(1000)]
    table = pa.table({"c": pa.array(values, pa.int64()), "k": [f"k{i}" for i in range(1000)]})
    path = str(tmp_path / "worn.lance")
    dataset = lance.write_dataset(table, path, max_rows_per_file=400)
    dataset.delete("c < 70 OR (c >= 100 AND c < 180) OR c IN (399, 400, 990)")
    for column in ("c", "k"):
        config = IndexConfig("bloomfilter", {"number_of_items": 64, "probability": 0.001})
        lance.dataset(path).create_scalar_index(column, config)
    return path


def test_deleted_rows_are_within_zones(worn):
    rows = physical_rows(lance.dataset(worn))
    with zones.open(worn, column="c") as index:
        assert max(index.zones["zone_length"]) > 64
        for zone, bitset in zip(index.zones, index.to_table()["bloom_filter_data"].to_pylist(), strict=True):
            assert bitset == zones.lance_filter(of_zone(rows, zone), 64, 0.001)


def filtered(path, condition):
    """Return the rows that Lance finds by its index."""
    scanner = lance.dataset(path).scanner(filter=condition, use_scalar_index=True, with_row_address=True, columns=["c"])
    assert "ScalarIndexQuery" in scanner.explain_plan() or "MaterializeIndex" in scanner.explain_plan()
    return scanner.to_table()["_rowaddr"].to_pylist()


@pytest.mark.parametrize(
    ("condition", "ask"),
    [
        ("c = 250", lambda index: index.equals(250)),
        ("c = 5", lambda index: index.equals(5)),
        ("c = -1", lambda index: index.equals(-1)),
        ("c IN (250, 251, 999)", lambda index: index.is_in([250, 251, 999])),
        ("c IS NULL", lambda index: index.is_null()),
    ],
)
def test_lance_results_lie_in_the_answered_zones(condition, ask, worn):
    with zones.open(worn, column="c") as index:
        positions = answered(ask(index))
        for address in filtered(worn, condition):
            fragment, offset = address >> 32, address & 0xFFFFFFFF
            assert any(f == fragment and start <= offset < start + length for f, start, length in positions)
        brute = [
            (int(zone["fragment_id"]), int(zone["zone_start"]), int(zone["zone_length"]))
            for zone, bitset in zip(index.zones, index.to_table()["bloom_filter_data"].to_pylist(), strict=True)
            if (zone["has_null"] if "NULL" in condition else answers(bitset, condition))
        ]
        assert positions == brute


def answers(bitset, condition):
    numbers = [int(each) for each in re.findall(r"-?\d+", condition)]
    oracle_filter = oracle.OracleFilter(len(bitset), bitset)
    return any(oracle_filter.check(number.to_bytes(8, "little", signed=True)) for number in numbers)


def test_which_index_of_several(worn):
    with pytest.raises(ParquetBloomError, match="2 Bloom filter indexes; there are: c_idx of c, k_idx of k"):
        zones.open(worn)
    assert zones.open(worn, name="k_idx").column == "k"
    assert zones.open(worn, column="k").equals("k500").num_rows >= 1
    with pytest.raises(ParquetBloomError, match="no Bloom filter indexes of that name or column"):
        zones.open(worn, column="x")


def test_fragments_that_came_since_are_in_every_answer(worn):
    lance.write_dataset(pa.table({"c": [5000, 5001], "k": ["q", "r"]}), worn, mode="append")
    with zones.open(worn, column="c") as index:
        assert index.uncovered == [(3, 2)]
        assert answered(index.equals(5000)) == [(3, 0, 2)]
        assert answered(index.is_null())[-1] == (3, 0, 2)
    lance.dataset(worn).optimize.optimize_indices()
    with zones.open(worn, column="c") as index:
        assert index.uncovered == []
        assert answered(index.equals(5000)) == [(3, 0, 2)]
    lance.dataset(worn).update({"c": "c + 10000"}, where="c >= 200 AND c < 220")
    with zones.open(worn, column="c") as index:
        (fragment,) = [number for number, _ in index.uncovered]
        assert answered(index.equals(10210)) == [(fragment, 0, 20)] or len(answered(index.equals(10210))) <= 2
    lance.dataset(worn).optimize.compact_files()
    with zones.open(worn, column="c") as index:
        live = {fragment.fragment_id for fragment in lance.dataset(worn).get_fragments()}
        assert {*index.zones["fragment_id"].tolist()} | {number for number, _ in index.uncovered} == live


def test_zeros_and_nan_lose_nothing(tmp_path):
    """Lance hashes both zeros as they are; a query for one means both."""
    values = [0.0, -0.0, math.nan, 1.5] + [2.5] * 4
    path = str(tmp_path / "set.lance")
    indexed(path, pa.table({"c": values}), 1, 0.001)
    with zones.open(path) as index:
        for zero in (0.0, -0.0, 0):
            assert answered(index.equals(zero))[:2] == [(0, 0, 1), (0, 1, 1)]
        assert len(answered(index.equals(math.nan))) == len(index)
        assert len(answered(index.equals(1.5))) < len(index)


def test_an_index_file_by_itself(worn):
    with zones.open(worn, column="k") as complete:
        (name,) = [each.segments[0].uuid for each in lance.dataset(worn).describe_indices() if each.name == "k_idx"]
        location = Path(worn) / "_indices" / name / "bloomfilter.lance"
        with zones.open(location, value_type=pa.string(), column="k") as index:
            assert index.to_table().equals(complete.to_table())
            assert answered(index.equals("k500")) == answered(complete.equals("k500"))
        assert zones.open(location).equals("k500").num_rows == len(complete)  # of which type?


def test_a_literal_is_one_byte_in_a_column_of_bytes(tmp_path):
    path = str(tmp_path / "set.lance")
    indexed(path, pa.table({"c": pa.array([5, 6, 7, 8], pa.int8())}), 1, 0.0001)
    with zones.open(path) as index:
        assert (0, 0, 1) in answered(index.equals(5))
        assert len(answered(index.equals(5))) < 4
        assert answered(index.equals(300)) == []
        assert index.equals("5").num_rows == 4
        assert len(answered(index.is_in([np.int64(5)]))) < 4


def test_stamps_by_what_people_write(tmp_path):
    path = str(tmp_path / "set.lance")
    stamps = pa.array([dt.datetime(2020, 1, day) for day in range(1, 29)], pa.timestamp("s"))
    indexed(path, pa.table({"c": stamps}), 1, 0.0001)
    with zones.open(path) as index:
        for literal in (dt.datetime(2020, 1, 2), "2020-01-02", "2020-01-02 00:00:00", dt.date(2020, 1, 2), stamps[1]):
            assert answered(index.equals(literal))[0] == (0, 1, 1)
            assert len(answered(index.equals(literal))) < 5


@pytest.mark.parametrize("container", ["parquet", "arrow"])
def test_ours_over_parquet_is_lance_s_over_the_same_data(container, tmp_path):
    """A row group is to one what a fragment is to the other."""
    values = with_nulls(TYPES["string"])
    pq.write_table(pa.table({"c": values}), tmp_path / "a.parquet", row_group_size=450)
    zones.build(tmp_path / "a.parquet", "c", tmp_path / f"z.{container}", rows_per_zone=100, fpp=0.01)
    path = str(tmp_path / "set.lance")
    indexed(path, pa.table({"c": values}), 100, 0.01, max_rows_per_file=450, max_rows_per_group=450)
    with zones.open(path) as theirs, zones.open(tmp_path / f"z.{container}") as ours:
        assert ours.to_table().equals(theirs.to_table())
        names = (b"bloomfilter_item", b"bloomfilter_probability")
        assert [ours.metadata[name] for name in names] == [theirs.metadata[name] for name in names]
        for value in ("", "é", "nothing", None):
            assert answered(ours.equals(value)) == answered(theirs.equals(value))


def test_types_that_lance_refuses_and_what_we_do(tmp_path):
    for number, values in enumerate(([True, False], pa.array([1.5], pa.float16()), pa.array([b"ab"], pa.binary(2)))):
        with pytest.raises(Exception, match="does not support data type"):
            indexed(str(tmp_path / f"{number}.lance"), pa.table({"c": values}), 10, 0.1)
    with pytest.raises(UnsupportedTypeError):
        zones.lance_filter([True, False])


def test_a_damaged_index_file_is_refused_in_a_line(worn, tmp_path):
    file = next(Path(worn).glob("_indices/*/bloomfilter.lance"))
    data = file.read_bytes()
    target = tmp_path / "bloomfilter.lance"
    for length in (20, len(data) // 2, len(data) - 5):
        target.write_bytes(data[:length] + data[-4:])
        with pytest.raises(ParquetBloomError) as caught:
            zones.open(target)
        assert "\n" not in str(caught.value)
    (Path(worn) / "_indices").rename(tmp_path / "gone")
    with pytest.raises(ParquetBloomError, match="pylance cannot"):
        zones.open(worn, column="c")

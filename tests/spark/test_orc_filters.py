"""ORC files by Spark: their filters rebuilt bit for bit, and the faults of its writer."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as pa_orc
import pytest
from support.oracle import orc_oracle
from support.writers import orc_spark_files

import parquet_bloom.orc as orc
from parquet_bloom.core.hash import orc_murmur3 as orc_hash
from parquet_bloom.orc.orc_filters import make_probes

pytestmark = pytest.mark.spark

STRIDE, ROWS, FPP = 1_000, 2_300, 0.01  # Spark takes no smaller stride

COLUMNS = {
    "i8": "cast(id % 200 - 100 as tinyint)",
    "i16": "cast(id * 7 - 9000 as smallint)",
    "i32": "cast(id * 77777 - 9000 as int)",
    "i64": "id * 1234567890123 - 99",
    "f32": "cast(id * 1.37 - 1000 as float)",
    "f64": "cast(id * 1.37e50 - 1000 as double)",
    "text": "if(id % 9 = 0, null, concat('é', id))",
    "blob": "cast(concat('b', id) as binary)",
    "day": "date_add(date'1960-01-01', cast(id * 11 as int))",
    # From 2001 to 2030: in a zone other than UTC filters of other years by Java are not used.
    "moment": "timestamp_micros(978307200000000 + id * 400000000123)",
    "ntz": "cast(timestamp_micros(id * 1234567890123 - 6000000000000001) as timestamp_ntz)",
    "decimal": "cast(id * 1.25 - 100 as decimal(10, 2))",
    "wide": "cast(id * 1.25 - 100 as decimal(38, 10))",
    "flag": "id % 2 = 0",
}


def _decimal(value: Decimal) -> int:
    text = format(value, "f")
    return orc_oracle.murmur((text.rstrip("0").rstrip(".") if "." in text else text).encode())


def _key(name: str) -> Callable[[Any], int]:
    if name in ("f32", "f64"):
        return lambda value: orc_oracle.wang(orc_oracle.double_bits(value))
    if name == "text":
        return lambda value: orc_oracle.murmur(value.encode())
    if name == "blob":
        return orc_oracle.murmur
    if name in ("decimal", "wide"):
        return _decimal
    if name == "moment":
        return lambda value: orc_oracle.wang(value // 1_000_000)
    return orc_oracle.wang


def _plain(array: pa.Array) -> list[Any]:
    """Values as they are hashed: dates and timestamps as numbers."""
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ns")).view(pa.int64())
    result: list[Any] = array.to_pylist()
    return result


def write(spark: Any, folder: Path, columns: dict[str, str] = COLUMNS, zone: str = "UTC", **options: str) -> Path:
    """One file of one stripe, with filters on all columns, by Java's clock of a zone: ORC writes wall clocks by it."""
    settings = {
        "orc.bloom.filter.columns": ",".join(columns),
        "orc.bloom.filter.fpp": str(FPP),
        "orc.row.index.stride": str(STRIDE),
        "compression": "none",
    }
    with orc_spark_files.jvm_zone(spark, zone):
        frame = spark.range(0, ROWS, 1, 1).selectExpr(*(f"{text} {name}" for name, text in columns.items()))
        frame.write.options(**settings | options).orc(str(folder))
    (path,) = folder.glob("*.orc")
    return path


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("version", ["original", "utf8"])
def test_rebuilt(version: str, zone: str, spark: Any, tmp_path: Path) -> None:
    path = write(spark, tmp_path / "a", zone=zone, **{"orc.bloom.filter.write.version": version})
    table = pa_orc.read_table(path)
    size = orc_hash.size_for(STRIDE, FPP)
    rebuilt = set()
    hashes: dict[tuple[str, int], np.ndarray] = {}
    with orc.open(path) as file:
        assert file.writer == "java"
        for one in file.filters():
            if one.column == "flag":
                assert not any(one.bitset)
                assert not one.trusted
                continue
            assert (one.num_bits, one.num_hash_functions) == size
            if one.kind == "BLOOM_FILTER" and one.column in ("moment", "decimal", "wide"):
                assert not one.trusted
                continue
            assert one.trusted, one.doubt
            location = one.column, one.row_group
            if location not in hashes:
                rows = table[one.column].slice(one.row_group * STRIDE, STRIDE).combine_chunks()
                key = _key(one.column)
                hashes[location] = np.array([key(value) for value in _plain(rows) if value is not None], np.uint64)
            bits = bytearray(one.num_bits // 8)
            orc_hash.insert(bits, hashes[location], one.num_hash_functions)
            assert bytes(one.bitset) == bytes(bits)
            rebuilt.add((one.kind, *location))
    kinds = 2 if version == "original" else 1
    assert len(rebuilt) == 3 * (13 * kinds - 3 * (kinds - 1))
    report = orc.verify(path, data=True)
    problems = [chunk for chunk in report.problems if chunk.column != "moment"]
    assert problems == []


def test_codecs(spark: Any, tmp_path: Path) -> None:
    for codec in ("zlib", "snappy", "lzo", "lz4", "zstd"):
        pytest.importorskip({"lzo": "lzallright", "lz4": "lz4.block"}.get(codec, "zlib"))
        path = write(spark, tmp_path / codec, {"id": "id", "text": COLUMNS["text"]}, compression=codec)
        with orc.open(path) as file:
            assert file.compression == codec
            assert len([one for one in file.filters() if one.trusted]) == 6
            statistics = file.row_group_evidence(file.leaves, [0])[0, file.leaf("id").column_id]
            assert [(one.low, one.high) for one in statistics] == [(0, 999), (1_000, 1_999), (2_000, 2_299)]
        report = orc.verify(path, data=True)
        assert report.ok
        assert sum(chunk.num_missing == 0 for chunk in report.chunks) == 6


def test_wall_clocks_of_filters_of_the_first_kind(spark: Any, tmp_path: Path) -> None:
    """They are not those that readers see: trusted, they would lose rows."""
    options = {"orc.bloom.filter.write.version": "original"}
    path = write(spark, tmp_path / "a", {"t": COLUMNS["moment"]}, zone="Asia/Tokyo", **options)
    rows = pa_orc.read_table(path)["t"].combine_chunks()
    with orc.open(path) as file:
        first = {one.kind: one for one in file.filters() if one.row_group == 0}
        leaf = file.leaf("t")
        chosen = file.filters_of(leaf, 0)[0]
        assert chosen is not None
        assert chosen.kind == "BLOOM_FILTER_UTF8"
    matches = make_probes(rows[:STRIDE], leaf)
    assert not matches.answer(first["BLOOM_FILTER"].check_hashes).all()
    assert matches.answer(first["BLOOM_FILTER_UTF8"].check_hashes).all()
    assert not first["BLOOM_FILTER"].trusted
    assert first["BLOOM_FILTER"].check(rows).all()
    assert first["BLOOM_FILTER_UTF8"].trusted


def test_booleans(spark: Any, tmp_path: Path) -> None:
    """Java sets no bit for them: trusted, they would lose all rows."""
    path = write(spark, tmp_path / "a", {"flag": COLUMNS["flag"]})
    with orc.open(path) as file:
        for one in file.filters():
            assert not one.check_hashes(orc_hash.hash_longs(np.array([0, 1]))).any()
            assert not one.trusted
            assert one.check([True, False]).all()
        assert not any(statistics.filtered for statistics in file.row_group_evidence(file.leaves, [0])[0, 1])


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_no_old_time_is_lost(zone: str, spark: Any, tmp_path: Path) -> None:
    """Dates in the Julian calendar, parts of seconds before 1970 and around it, and clocks before 1900."""
    columns = {
        "day": "date_add(date'0900-01-01', cast(id * 211 as int))",
        "around": "timestamp_micros(id * 1237 - 1500000)",
        "before": "timestamp_micros(id * 123456789 - 300000000000)",
        "old": "timestamp_micros(id * 1234567890123 - 7000000000000000)",
    }
    path = write(spark, tmp_path / "a", columns, zone=zone)
    report = orc.verify(path, data=True)
    assert report.ok, report.problems[0]
    probed = {chunk.column for chunk in report.chunks if chunk.num_values}
    assert {"day", "around", "before"} <= probed
    table = pa_orc.read_table(path)
    with orc.open(path) as file:
        for leaf in file.leaves:
            statistics = file.row_group_evidence([leaf], [0])[0, leaf.column_id]
            (stripe,) = file.stripe_statistics(leaf)
            values = _plain(table[leaf.name].combine_chunks())
            for number, one in enumerate([*statistics, stripe]):
                rows = values[number * STRIDE : (number + 1) * STRIDE] if number < 3 else values
                assert one.low is None or one.low <= min(rows)
                assert one.high is None or one.high >= max(rows)
            if leaf.name == "old":
                trusted = [one.trusted for one in file.filters(["old"])]
                assert trusted[0] is (zone == "UTC")


def test_nan_hides_values(spark: Any, tmp_path: Path) -> None:
    """If NaN comes first in a row group, the stripe's bounds leave out the rest of it."""
    values = "case when id = 1000 then double('NaN') when id > 1000 then id * 1000.0D else id * 1.0D end"
    path = write(spark, tmp_path / "a", {"x": values})
    with orc.open(path) as file:
        leaf = file.leaf("x")
        statistics = file.row_group_evidence([leaf], [0])[0, leaf.column_id]
        assert (statistics[0].low, statistics[0].high) == (0.0, 999.0)
        assert statistics[1].low is None
        assert file.stripe_statistics(leaf)[0].high is None
        bloom_filter = file.filters_of(leaf, 0)[1]
        assert bloom_filter is not None
        assert bloom_filter.check([1_001_000.0, float("nan"), 5.0]).tolist() == [True, True, False]

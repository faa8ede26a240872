"""`write_table`: the filters that `embed` would make, written with the file in the first place."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.writers import surgery

import parquet_bloom
from parquet_bloom import errors

ROWS = 150


def make_table() -> pa.Table:
    rng = random.Random(3)
    moments = [dt.datetime(2020, 1, 1) + dt.timedelta(seconds=rng.randrange(10**8)) for _ in range(ROWS)]
    texts = [rng.choice([None, f"t{rng.randrange(40)}"]) for _ in range(ROWS)]
    columns = {
        "i64": pa.array([rng.choice([None, rng.randrange(2**62)]) for _ in range(ROWS)]),
        "u32": pa.array([rng.randrange(2**32) for _ in range(ROWS)], pa.uint32()),
        "f16": pa.array(np.array([rng.choice([0.0, -0.0, i / 8]) for i in range(ROWS)], np.float16)),
        "f64": pa.array([rng.choice([0.0, -0.0, float("nan"), i / 8]) for i in range(ROWS)]),
        "dec": pa.array([Decimal(rng.randrange(-(10**9), 10**9)) / 100 for _ in range(ROWS)], pa.decimal128(12, 2)),
        **{f"ts_{unit}": pa.array(moments, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
        "tz": pa.array(moments, pa.timestamp("us", "Asia/Tokyo")),
        "str": pa.array(texts),
        "view": pa.array(texts, pa.string_view()),
        "dict": pa.array(texts).dictionary_encode(),
        "nulls": pa.nulls(ROWS, pa.int32()),
        "flag": pa.array([True, False] * (ROWS // 2)),
        "st": pa.array([rng.choice([None, {"a": i, "b": {"c": f"c{i}"}}]) for i in range(ROWS)]),
        "li": pa.array([rng.choice([None, [], [None], [i, i + 1]]) for i in range(ROWS)], pa.list_(pa.int64())),
    }
    uuids = pa.array([[rng.randbytes(16)] * (i % 2) for i in range(ROWS)], pa.list_(pa.binary(16)))
    return pa.table(columns | {"uuids": uuids.cast(pa.list_(pa.uuid()))})


def leaves(path: Path, *without: str) -> list[str]:
    with parquet_bloom.open(path) as file:
        return [name for name in file.columns if name.split(".")[0] not in without]


def bits(path: Path) -> dict[tuple[int, str], bytes]:
    return {key: stored.bitset for key, stored in oracle.filters(path).items()}


@pytest.mark.ci
@pytest.mark.parametrize(
    "options",
    [
        *({"row_group_size": 40}, {"version": "1.0"}, {"version": "2.4"}, {"store_decimal_as_integer": True}),
        *({"coerce_timestamps": unit, "allow_truncated_timestamps": True} for unit in ("us", "ms")),
        {"use_deprecated_int96_timestamps": True},
        {"bloom_filter_options": {"i64": {"ndv": 5}, "u32": {"ndv": 5}}},
    ],
    ids=str,
)
def test_filters_are_those_of_embed(tmp_path, options):
    table = make_table()
    ours, theirs = tmp_path / "ours.parquet", tmp_path / "theirs.parquet"
    pq.write_table(table, theirs, **{key: value for key, value in options.items() if key != "bloom_filter_options"})
    columns = leaves(theirs, "flag")
    report = parquet_bloom.write_table(table, ours, columns, **options)
    parquet_bloom.embed(theirs, columns)
    assert bits(ours) == bits(theirs)
    assert report.num_filters == len(bits(ours))
    assert report.changed
    assert report.new_size == ours.stat().st_size
    with_nan = ["f64"]
    assert pq.read_table(ours).drop(with_nan).equals(pq.read_table(theirs).drop(with_nan))
    assert parquet_bloom.verify(ours, data=True).ok
    assert not parquet_bloom.embed(ours, columns).changed


def test_data_is_what_pyarrow_writes(tmp_path):
    """Byte for byte, up to where the filters begin."""
    table = make_table().select(["i64", "str", "li"])
    ours, theirs = tmp_path / "ours.parquet", tmp_path / "theirs.parquet"
    for options in ({}, {"write_page_index": True, "row_group_size": 50}):
        pq.write_table(table, theirs, **options)
        report = parquet_bloom.write_table(table, ours, ["i64"], **options)
        before = theirs.read_bytes()
        assert ours.read_bytes().startswith(before[: oracle.footer_start(before)])
        assert report.old_size == len(before)
        assert pq.read_metadata(ours).created_by == pq.read_metadata(theirs).created_by
        assert pq.read_table(ours).equals(table)


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_values_that_pyarrow_cuts_off(tmp_path, unit):
    """The file holds other values than the table: those of the file are what is hashed."""
    table = pa.table({"t": pa.array([1_234_567_891, 2_345_678_912, None], pa.timestamp("ns")), "i": [1, 2, 3]})
    options = {"coerce_timestamps": unit, "allow_truncated_timestamps": True}
    ours, theirs = tmp_path / "ours.parquet", tmp_path / "theirs.parquet"
    pq.write_table(table, theirs, **options)
    parquet_bloom.embed(theirs, ["t", "i"], fpp=0.001)
    report = parquet_bloom.write_table(table, ours, ["t", "i"], fpp=0.001, **options)
    assert report.num_filters == 2
    assert bits(ours) == bits(theirs)
    assert parquet_bloom.verify(ours, data=True).ok
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["ours.parquet", "theirs.parquet"]


def test_chunked_tables_and_slices(tmp_path):
    table = make_table()
    path = tmp_path / "a.parquet"
    for part in (
        pa.concat_tables([table.slice(0, 50), table.slice(50, 1), table.slice(51)]),
        table.slice(13, 90),
        pa.concat_tables([table.slice(100), table.slice(3, 7)]),
    ):
        pq.write_table(part, path, row_group_size=33)
        columns = leaves(path, "flag")
        parquet_bloom.embed(path, columns)
        expected = bits(path)
        parquet_bloom.write_table(part, path, columns, row_group_size=33)
        assert bits(path) == expected


@pytest.mark.parametrize("rows", [0, 1])
def test_small_tables(tmp_path, rows):
    path = tmp_path / "a.parquet"
    table = make_table().slice(0, rows)
    report = parquet_bloom.write_table(table, path, ["u32", "str"])
    assert report.num_filters == (2 if rows else 0)
    assert pq.read_table(path).num_rows == rows
    assert parquet_bloom.verify(path, data=True).ok


def test_sizes(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"a": range(1000), "b": range(1000)})
    parquet_bloom.write_table(table, path, {"a": 0.5, "b": {"ndv": 10**5}}, fpp=0.001, power_of_two=False)
    sizes = {column: len(bitset) for (_, column), bitset in bits(path).items()}
    assert sizes == {
        "a": oracle.smallest_num_bytes(1000, 0.5, False),
        "b": oracle.smallest_num_bytes(10**5, 0.001, False),
    }


def test_a_file_that_is_there_is_replaced(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"something else")
    parquet_bloom.write_table(pa.table({"a": [1]}), str(path), "a")
    assert list(bits(path)) == [(0, "a")]
    assert [file.name for file in tmp_path.iterdir()] == ["a.parquet"]


def test_failures_leave_no_file(tmp_path):
    table = make_table()
    odd = table.append_column("odd", pa.array(range(ROWS), pa.int64()).cast(pa.timestamp("us")))
    properties = surgery.encryption_properties(plaintext_footer=False, columns=("i64",))
    plain, unwritable = errors.ParquetBloomError, (errors.ParquetBloomError, "pyarrow cannot write")
    for columns, options, (kind, problem) in (
        (["nope"], {}, (errors.UnknownColumnError, "nope")),
        (["flag"], {}, (errors.UnsupportedTypeError, "BOOLEAN")),
        (["st"], {}, (errors.UnknownColumnError, "several columns")),
        ([], {}, (plain, "no column")),
        (["i64"], {"fpp": 2}, (plain, "between 0 and 1")),
        (["i64"], {"compression": "none of them"}, unwritable),
        (["i64"], {"no_such_option": 1}, unwritable),
        (["i64"], {"coerce_timestamps": "ms"}, unwritable),
        (["i64"], {"encryption_properties": properties}, (errors.UnsupportedTypeError, "encrypted")),
    ):
        for content in (None, b"the old one"):
            path = tmp_path / "a.parquet"
            path.unlink(missing_ok=True)
            if content:
                path.write_bytes(content)
            with pytest.raises(kind, match=problem) as caught:
                parquet_bloom.write_table(odd if "coerce_timestamps" in options else table, path, columns, **options)
            assert isinstance(caught.value, errors.ParquetBloomError)
            assert "\n" not in str(caught.value)
            assert [file.read_bytes() for file in tmp_path.iterdir()] == ([content] if content else [])


def test_other_file_systems_and_folders_of_tables(tmp_path):
    memory = fsspec.filesystem("memory")
    parquet_bloom.write_table(pa.table({"a": [1]}), "/lake/w.parquet", ["a"], filesystem=memory)
    (tmp_path / "b.parquet").write_bytes(memory.cat("/lake/w.parquet"))
    assert parquet_bloom.verify(tmp_path / "b.parquet", data=True).ok
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(errors.ManagedTableError):
        parquet_bloom.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet", ["a"])
    assert not (tmp_path / "a.parquet").exists()

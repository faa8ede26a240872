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
    return pa.table(
        {
            "i8": pa.array([rng.randrange(-128, 128) for _ in range(ROWS)], pa.int8()),
            "u32": pa.array([rng.randrange(2**32) for _ in range(ROWS)], pa.uint32()),
            "i64": pa.array([rng.choice([None, rng.randrange(2**62)]) for _ in range(ROWS)]),
            "f16": pa.array(np.array([rng.choice([0.0, -0.0, i / 8]) for i in range(ROWS)], np.float16)),
            "f64": pa.array([rng.choice([0.0, -0.0, float("nan"), i / 8]) for i in range(ROWS)]),
            "dec": pa.array([Decimal(rng.randrange(-(10**9), 10**9)) / 100 for _ in range(ROWS)], pa.decimal128(12, 2)),
            "date": pa.array([moment.date() for moment in moments]),
            "date64": pa.array([moment.date() for moment in moments], pa.date64()),
            "time_s": pa.array([moment.time() for moment in moments], pa.time32("s")),
            **{f"ts_{unit}": pa.array(moments, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
            "tz": pa.array(moments, pa.timestamp("us", "Asia/Tokyo")),
            "dur": pa.array([moment - moments[0] for moment in moments], pa.duration("us")),
            "str": pa.array(texts),
            "view": pa.array(texts, pa.string_view()),
            "dict": pa.array(texts).dictionary_encode(),
            "bin": pa.array([rng.randbytes(rng.randrange(9)) for _ in range(ROWS)], pa.large_binary()),
            "flba": pa.array([rng.randbytes(5) for _ in range(ROWS)], pa.binary(5)),
            "uuid": pa.ExtensionArray.from_storage(
                pa.uuid(), pa.array([rng.randbytes(16) for _ in range(ROWS)], pa.binary(16))
            ),
            "uuids": pa.array([[rng.randbytes(16)] * (i % 2) for i in range(ROWS)], pa.list_(pa.binary(16))).cast(
                pa.list_(pa.uuid())
            ),
            "nulls": pa.nulls(ROWS, pa.int32()),
            "flag": pa.array([True, False] * (ROWS // 2)),
            "st": pa.array([rng.choice([None, {"a": i, "b": {"c": f"c{i}"}}]) for i in range(ROWS)]),
            "li": pa.array([rng.choice([None, [], [None], [i, i + 1]]) for i in range(ROWS)], pa.list_(pa.int64())),
            "large": pa.array([[f"x{i}"] * (i % 3) for i in range(ROWS)], pa.large_list(pa.string())),
            "fixed": pa.array([rng.choice([None, [i, i + 1]]) for i in range(ROWS)], pa.list_(pa.int32(), 2)),
            "ls": pa.array([[{"q": f"q{i}", "r": i}] * (i % 3) for i in range(ROWS)]),
            "map": pa.array(
                [rng.choice([None, [], [(f"k{i}", i)]]) for i in range(ROWS)],
                pa.map_(pa.string(), pa.int32()),
            ),
        }
    )


def leaves(path: Path, *without: str) -> list[str]:
    with parquet_bloom.open(path) as file:
        return [name for name in file.columns if name.split(".")[0] not in without]


def bits(path: Path) -> dict[tuple[int, str], bytes]:
    return {key: stored.bitset for key, stored in oracle.filters(path).items()}


@pytest.mark.ci
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_group_size": 40},
        {"row_group_size": 60, "data_page_version": "2.0", "compression": "zstd"},
        {"use_dictionary": False, "write_page_index": True},
        {"version": "1.0"},
        {"version": "2.4"},
        {"store_schema": False},
        {"store_decimal_as_integer": True},
        {"use_compliant_nested_type": False},
        {"write_statistics": False},
        {"coerce_timestamps": "us", "allow_truncated_timestamps": True},
        {"coerce_timestamps": "ms", "allow_truncated_timestamps": True},
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
    report = parquet_bloom.write_table(table, path, ["i8", "str"])
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


def test_other_file_systems(tmp_path):
    memory = fsspec.filesystem("memory")
    parquet_bloom.write_table(pa.table({"a": [1]}), "/lake/w.parquet", ["a"], filesystem=memory)
    (tmp_path / "a.parquet").write_bytes(memory.cat("/lake/w.parquet"))
    assert parquet_bloom.verify(tmp_path / "a.parquet", data=True).ok


@pytest.mark.parametrize(
    ("columns", "options", "kind", "problem"),
    [
        (["nope"], {}, errors.UnknownColumnError, "nope"),
        (["flag"], {}, errors.UnsupportedTypeError, "BOOLEAN"),
        (["st"], {}, errors.UnknownColumnError, "several columns"),
        ([], {}, errors.ParquetBloomError, "no column"),
        (["i64"], {"fpp": 2}, errors.ParquetBloomError, "between 0 and 1"),
        (["i64"], {"compression": "none of them"}, errors.ParquetBloomError, "pyarrow cannot write"),
        (["i64"], {"no_such_option": 1}, errors.ParquetBloomError, "pyarrow cannot write"),
        (["i64"], {"coerce_timestamps": "ms"}, errors.ParquetBloomError, "pyarrow cannot write"),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_failures_leave_no_file(tmp_path, columns, options, kind, problem, there):
    path = tmp_path / "a.parquet"
    if there:
        path.write_bytes(b"the old one")
    table = make_table()
    if "coerce_timestamps" in options:
        table = table.append_column("odd", pa.array(range(ROWS), pa.int64()).cast(pa.timestamp("us")))
    with pytest.raises(kind, match=problem) as caught:
        parquet_bloom.write_table(table, path, columns, **options)
    assert isinstance(caught.value, errors.ParquetBloomError)
    assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == (["a.parquet"] if there else [])
    assert not there or path.read_bytes() == b"the old one"


def test_encryption_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    properties = surgery.encryption_properties(plaintext_footer=False, columns=("a",))
    with pytest.raises(errors.UnsupportedTypeError, match="encrypted"):
        parquet_bloom.write_table(pa.table({"a": [1]}), path, ["a"], encryption_properties=properties)
    assert not path.exists()


def test_a_tables_folder_is_refused(tmp_path):
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(errors.ManagedTableError):
        parquet_bloom.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet", ["a"])
    assert not (tmp_path / "a.parquet").exists()

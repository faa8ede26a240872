"""Filters that are rebuilt from the values of row groups equal those in the file, bit for bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as pa_orc
import pytest
from support.writers.orc_columns import FPP, ROWS, STRIDE, columns, expected_bits, table_of
from support.writers.orc_files import ROOT

import parquet_bloom.orc as orc
from parquet_bloom.core.hash import orc_murmur3 as orc_hash
from parquet_bloom.orc.orc_filters import make_probes

CODECS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")


def write(table: pa.Table, path: Path, **options: Any) -> Path:
    """A file by pyarrow with filters on all columns; flat ones alone, whose ids count from 1."""
    settings = {"row_index_stride": STRIDE, "bloom_filter_fpp": FPP, "compression": "uncompressed", **options}
    pa_orc.write_table(table, path, bloom_filter_columns=list(range(1, table.num_columns + 1)), **settings)
    return path


def assert_rebuilt(path: Path, created: dict[str, Any], names: list[str] | None = None) -> None:
    """Each filter has the size that ORC's formula gives and the bits of the twin, and denies none of its values."""
    size = orc_hash.size_for(STRIDE, FPP)
    with orc.open(path) as file:
        bloom_filter = list(file.filters(names))
        assert len(bloom_filter) == len(names or created) * len(file.row_groups)
        first = {(one.stripe, one.row_group): one for one in file.row_groups}
        for one in bloom_filter:
            kind, values, key = created[one.column]
            location = first[one.stripe, one.row_group]
            rows = values[location.first_row : location.first_row + location.num_rows]
            assert one.trusted, one.doubt
            assert (one.num_bits, one.num_hash_functions) == size
            assert bytes(one.bitset) == expected_bits(rows, key, one.num_hash_functions, one.num_bits)
            assert one.check(pa.array(rows, kind)).all()
    report = orc.verify(path, data=True, columns=names)
    assert report.ok, report.problems[0]
    assert sum(chunk.num_values or 0 for chunk in report.chunks) > 0


@pytest.mark.ci
@pytest.mark.parametrize("codec", CODECS)
def test_pyarrow(codec: str, tmp_path: Path) -> None:
    if codec == "lz4":
        pytest.importorskip("lz4.block")
    made_columns = columns()
    path = write(table_of(made_columns), tmp_path / "a.orc", compression=codec)
    with orc.open(path) as file:
        assert file.compression == codec.replace("uncompressed", "none")
        assert [one.num_rows for one in file.row_groups] == [200, 200, 60]
    assert_rebuilt(path, made_columns)


def test_our_own_hashes_make_the_same_bits(tmp_path: Path) -> None:
    """`check` probes the bits that the writer set for a value: inserting all forms sets all of them."""
    made_columns = columns(3)
    path = write(table_of(made_columns), tmp_path / "a.orc")
    with orc.open(path) as file:
        for one in file.filters():
            kind, values, _ = made_columns[one.column]
            rows = values[one.row_group * STRIDE : (one.row_group + 1) * STRIDE]
            probes = make_probes(pa.array(rows, kind).drop_null(), one.leaf)
            bits = bytearray(one.num_bits // 8)
            orc_hash.insert(bits, probes.hashes, one.num_hash_functions)
            theirs, ours = np.frombuffer(one.bitset, np.uint8), np.frombuffer(bits, np.uint8)
            assert ((theirs & ours) == theirs).all()
            if len(probes.hashes) == len(rows) - rows.count(None):
                assert bytes(theirs) == bytes(ours)


IN_A_ZONE = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/tests", sys.argv[1] + "/tests/unit/orc"]
from support.writers.orc_columns import columns, table_of
from test_rebuild import write
from pathlib import Path
made = {name: one for name, one in columns().items() if name in ("wall", "moment", "day")}
write(table_of(made), Path(sys.argv[2]))
"""


@pytest.mark.ci
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_pyarrow_elsewhere(zone: str, tmp_path: Path) -> None:
    """The zone of the machine that writes does not matter."""
    path = tmp_path / "a.orc"
    command = [sys.executable, "-c", IN_A_ZONE, str(ROOT), str(path)]
    subprocess.run(command, check=True, env={"TZ": zone, "PATH": "", "PYTHONPATH": str(ROOT)}, cwd=ROOT)
    made_columns = {name: one for name, one in columns().items() if name in ("wall", "moment", "day")}
    assert_rebuilt(path, made_columns)


PYORC_SCHEMA = (
    "struct<i16:smallint,i32:int,i64:bigint,f32:float,f64:double,text:string,blob:binary,d18:decimal(18,3),"
    "d38:decimal(38,3),short:varchar(40)>"
)


@pytest.mark.ci
@pytest.mark.parametrize("codec", ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"])
def test_pyorc(codec: str, tmp_path: Path) -> None:
    pyorc = pytest.importorskip("pyorc")
    if codec == "LZ4":
        pytest.importorskip("lz4.block")
    made_columns = columns()
    made_columns["short"] = made_columns["text"]
    names = ["i16", "i32", "i64", "f32", "f64", "text", "blob", "d18", "d38", "short"]
    path = tmp_path / "a.orc"
    with (
        path.open("wb") as stream,
        pyorc.Writer(
            stream,
            PYORC_SCHEMA,
            compression=pyorc.CompressionKind[codec],
            row_index_stride=STRIDE,
            bloom_filter_columns=names,
            bloom_filter_fpp=FPP,
        ) as writer,
    ):
        for row in range(ROWS):
            writer.write(tuple(made_columns[name][1][row] for name in names))
    assert_rebuilt(path, {name: made_columns[name] for name in names})


def test_stripes(tmp_path: Path) -> None:
    """Row groups are counted through stripes, and each stripe's filters are its own."""
    rows = 12_000
    values = [str(i * 7919) for i in range(rows)]
    path = write(
        pa.table({"a": values}), tmp_path / "a.orc", stripe_size=1 << 14, batch_size=500, row_index_stride=1_000
    )
    with orc.open(path) as file:
        assert len(file.stripes) > 2
        assert [one.number for one in file.row_groups] == list(range(len(file.row_groups)))
        assert sum(one.num_rows for one in file.row_groups) == sum(one.num_rows for one in file.stripes) == rows
        leaf = file.leaf("a")
        together = file.filters_at([(leaf, number) for number in range(len(file.stripes))])
        for one in file.row_groups:
            bloom_filter = file.filters_of(leaf, one.stripe)[one.row_group]
            again = together[one.stripe][one.row_group]
            assert bloom_filter is not None
            assert again is not None
            assert bytes(bloom_filter.bitset) == bytes(again.bitset)
            assert bloom_filter.check(values[one.first_row : one.first_row + one.num_rows]).all()
            outside = bloom_filter.check(values[: one.first_row] + values[one.first_row + one.num_rows :])
            assert outside.mean() < 0.05
    assert orc.verify(path, data=True).ok


def test_nested_columns(tmp_path: Path) -> None:
    """Elements of lists and maps and members of structs have filters of their own, rows or not."""
    rows = [
        {
            "a": None if i % 5 == 0 else {"x": i, "y": f"y{i}"},
            "l": None if i % 7 == 0 else list(range(i, i + i % 4)),
            "m": [(f"k{i}", i * 3)],
        }
        for i in range(460)
    ]
    schema = pa.schema(
        {
            "a": pa.struct({"x": pa.int64(), "y": pa.string()}),
            "l": pa.list_(pa.int64()),
            "m": pa.map_(pa.string(), pa.int64()),
        }
    )
    path = tmp_path / "a.orc"
    pa_orc.write_table(
        pa.Table.from_pylist(rows, schema=schema),
        path,
        row_index_stride=STRIDE,
        bloom_filter_columns=list(range(1, 9)),
        bloom_filter_fpp=FPP,
    )
    with orc.open(path) as file:
        assert file.columns == ["a.x", "a.y", "l.item", "m.key", "m.value"]
        assert [leaf.repeated for leaf in file.leaves] == [False, False, True, True, True]
        first = {one.column: one for one in file.filters() if one.row_group == 0}
        assert first["a.x"].check([1, 2, None]).tolist() == [True, True, True]
        assert first["l.item"].check([3]).all()
        assert not first["a.x"].check(list(range(5_000, 5_050))).all()
        evidence = file.row_group_evidence(file.leaves, [0])
        assert evidence[0, file.leaf("a.x").column_id][0].low == 1
    report = orc.verify(path, data=True)
    assert report.ok, report.problems[0]
    assert sum(chunk.num_values or 0 for chunk in report.chunks) > 1_600

"""Real tables by Spark, Databricks and delta-rs: what is read of them, compared with deltalake and with their files."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.random_cases.table_statistics import check_column

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.tables.delta.delta_snapshot import DeltaSnapshot
from parquet_bloom.tables.delta.delta_table import delta
from parquet_bloom.tables.table_locations import resolve_delta_path
from parquet_bloom.variant.variant_type import is_variant

deltalake = pytest.importorskip("deltalake")

REFUSED = {
    "checkpoints_tombstones": "No files in log segment",
    "simple_table_features": "Invalid protocol action",
}


@pytest.fixture(scope="module")
def tables(corpus: Path) -> list[Path]:
    folder = corpus / "delta"
    if not folder.is_dir():
        pytest.skip("no tables in the corpus")
    return sorted(folder.iterdir())


def snapshots(tables: list[Path], versions: bool) -> Iterator[tuple[Any, DeltaSnapshot]]:
    """Yield the table of deltalake and ours, of the latest version or of every version that deltalake reads."""
    for path in tables:
        if path.name in REFUSED:
            continue
        latest = deltalake.DeltaTable(path).version()
        for version in range(latest + 1) if versions else [latest]:
            try:
                theirs = deltalake.DeltaTable(path, version=version)
            except Exception:
                assert version < latest
                with pytest.raises(ParquetBloomError) as caught:
                    delta(path, version=version).read_snapshot()
                assert len(str(caught.value).splitlines()) == 1
            else:
                yield theirs, delta(path, version=version).read_snapshot()


def test_tables_that_are_refused(tables: list[Path]) -> None:
    for name, problem in REFUSED.items():
        path = next((path for path in tables if path.name == name), None)
        assert path is not None
        with pytest.raises(ParquetBloomError, match=problem):
            delta(path).read_snapshot()


def test_files_and_deleted_rows_of_every_version(tables: list[Path]) -> None:
    num_deleted = 0
    for theirs, mine in snapshots(tables, versions=True):
        assert mine.version == theirs.version()
        assert {file.path for file in mine.files} == set(theirs.file_uris())
        assert mine.schema.names == [field.name for field in theirs.schema().fields]
        if "variantShredding-preview" in (theirs.protocol().reader_features or ()):  # deltalake only opens it
            assert not mine.deletes
            continue
        expected = {}
        for row in pa.table(theirs.deletion_vectors()).to_pylist():
            expected[resolve_delta_path(row["filepath"], None)] = np.flatnonzero(~np.array(row["selection_vector"]))
        assert mine.deletes.keys() == expected.keys()
        for path, rows in mine.deletes.items():
            assert rows.find_positions(range(1 << 40)).tolist() == expected[path].tolist()
            num_deleted += len(expected[path])
    assert num_deleted > 30


def read_columns(snapshot: DeltaSnapshot, path: str) -> dict[str, pa.ChunkedArray]:
    """The columns of a file that may have statistics, by their names in the table and in its types."""
    data = pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read()
    columns = {}
    for name, leaf in snapshot.leaves.items():
        first, *rest = leaf.physical
        column = data[first] if first in data.column_names else pa.chunked_array([pa.nulls(len(data), leaf.arrow_type)])
        for part in rest if first in data.column_names else ():
            column = pc.struct_field(column, part)
        columns[name] = column.cast(leaf.arrow_type)
    return columns


def test_no_file_with_a_row_is_ruled_out(tables: list[Path]) -> None:
    rng = random.Random(13)
    ruled_out = 0
    for _, snapshot in snapshots(tables, versions=False):
        files = {file.path: read_columns(snapshot, file.path) for file in snapshot.files if Path(file.path).exists()}
        if len(files) < len(snapshot.files):
            continue  # a log without its data
        for name, leaf in snapshot.leaves.items():
            # A Variant is asked by its paths: tests/unit/lake/test_variant_tables.py.
            if name not in snapshot.partition_values.column_names and not is_variant(leaf.arrow_type):
                ruled_out += check_column(snapshot, name, {path: data[name] for path, data in files.items()}, rng, 5)
    assert ruled_out > 400


def test_partition_values_are_those_of_the_rows(tables: list[Path]) -> None:
    num_values = 0
    for theirs, mine in snapshots(tables, versions=False):
        adds = pa.table(theirs.get_add_actions())
        values = adds["partition"].to_pylist() if "partition" in adds.column_names else [{}] * adds.num_rows
        paths = [resolve_delta_path(name, mine.root) for name in adds["path"].to_pylist()]
        expected = dict(zip(paths, values, strict=True))
        for file, row in zip(mine.files, mine.partition_values.to_pylist(), strict=True):
            assert row == expected[file.path]
            num_values += len(row)
    assert num_values > 50


@pytest.mark.parametrize("name", ["spark-shredded-variant-preview-delta", "spark-variant-checkpoint"])
def test_variants_are_those_of_the_files(tables: list[Path], name: str) -> None:
    """In structs, lists and maps, too."""
    path = next(path for path in tables if path.name == name)
    found = parquet_bloom.dataset(delta(path)).to_table().sort_by("id")
    expected = pa.concat_tables([pq.read_table(file) for file in sorted(path.glob("*.parquet"))]).sort_by("id")
    assert found.num_rows == expected.num_rows == 102
    assert found.to_pylist() == expected.to_pylist()
    assert found.schema.field("v").type == pa.struct([
        pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)
    ])  # fmt: skip

"""Bounds in Iceberg manifests that were cut and not rounded up: of columns, and of the paths that deletes name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")

from parquet_bloom.hashing.column_type import from_arrow
from parquet_bloom.predicate.pruning import PruningPredicate
from parquet_bloom.predicate.tree import Compare, Equal, NotEqual
from parquet_bloom.tables.iceberg import iceberg_deletes, iceberg_statistics
from parquet_bloom.tables.iceberg.manifests import DeleteFile


@pytest.mark.parametrize("arrow_type", [pa.string(), pa.binary()])
def test_columns(arrow_type: pa.DataType) -> None:
    """The second file's bound is of its partition, which is never cut; the third one's is short."""
    upper = pa.array([b"k" * 16, b"k" * 16, b"k" * 5, None], pa.binary())
    lower = pa.array([b"k" * 16 + b"a", b"k" * 16, b"k", None], pa.binary())
    unknown = np.full(4, -1, np.int8)
    is_exact = np.array([False, True, False, False])
    made = iceberg_statistics._make_statistics(from_arrow(arrow_type), lower, upper, is_exact, unknown, unknown)

    def possible(node: Any) -> list[bool]:
        predicate = PruningPredicate(node)
        return predicate.possible(predicate.decide_all({"a": made}, 4)).tolist()  # type: ignore[no-any-return]

    text = "k" * 16
    literal = text if pa.types.is_string(arrow_type) else text.encode()
    longer = literal + literal[:1]
    assert possible(Equal("a", longer)) == [True, False, False, True]
    assert possible(Compare("a", ">", longer)) == [True, False, False, True]
    assert possible(NotEqual("a", literal)) == [True, False, True, True]


@pytest.mark.parametrize("cut", [12, 22, 99])
def test_paths_of_deletes(cut: int) -> None:
    path = "s3://bucket/warehouse/data/a.parquet"
    fields: dict[str, Any] = dict.fromkeys(DeleteFile.__annotations__)
    file = DeleteFile(**fields)
    file = file._replace(lower=path.encode()[:cut], upper=path.encode()[:cut])
    plain = iceberg_deletes.without_scheme(path)
    assert iceberg_deletes.may_name(file, path)
    assert not iceberg_deletes.may_name(file, "s3://other/warehouse/data/a.parquet")
    assert iceberg_deletes._find_target(file, {plain}) == (plain if cut == 99 else None)

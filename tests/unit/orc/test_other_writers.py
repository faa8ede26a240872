"""ORC files as Presto, Hive 0.11 and Hive's streaming ingest leave them: without magic, with statistics of nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as pa_orc
import pytest
from support.writers.orc_files import Parts, fields_of, message_of, with_fields

import parquet_bloom
import parquet_bloom.orc as orc
from parquet_bloom.errors import NotParquetError
from parquet_bloom.orc.orc_compression import Compression
from parquet_bloom.orc.orc_schema import OrcLeaf, read_leaves
from parquet_bloom.orc.orc_statistics import Counts, read_statistics
from parquet_bloom.orc.orc_tail import OrcTail

ROWS = 100


def write(path: Path, **options: Any) -> Path:
    inner = [{"a": i, "deep": {"b": i * 3}} for i in range(ROWS)]
    table = pa.table({"k": list(range(ROWS)), "s": inner, "l": [[i] for i in range(ROWS)]})
    pa_orc.write_table(table, path, **options)
    return path


def without_magic(data: bytes, *others: int) -> bytes:
    """An ORC file without the magic, and other fields, of its postscript."""
    length = data[-1]
    tail = with_fields(data[-1 - length : -1], dict.fromkeys((8000, *others)))
    return data[: -1 - length] + tail + bytes([len(tail)])


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "zstd"])
def test_a_postscript_without_magic(compression: str, tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.orc", compression=compression)
    path = tmp_path / "a.orc"
    path.write_bytes(without_magic(whole.read_bytes()))
    assert pa_orc.ORCFile(path).read().num_rows == ROWS
    assert parquet_bloom.read_table(path, "k = 7").num_rows == 1
    assert not parquet_bloom.prune(path, "k = 1000").selected
    assert parquet_bloom.read_table(tmp_path, "k = 7").num_rows == 2  # beside a file with one
    assert not parquet_bloom.verify(path).chunks


def test_a_postscript_of_hive_0_11(tmp_path: Path) -> None:
    """It has no statistics of stripes, and neither a version of its writer nor one of the format."""
    parts = Parts(write(tmp_path / "whole.orc").read_bytes())
    parts.before = parts.before[: -parts.metadata_length]
    data = without_magic(parts.together(), 4, 5, 6)
    path = tmp_path / "a.orc"
    path.write_bytes(data)
    assert parquet_bloom.read_table(path, "k IN (7, 1000)").num_rows == 1


def test_bytes_that_end_in_no_postscript(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    for data in (
        b"ORC, the name of a text that ends in a small number \0",
        b"ORC" + bytes(100) + b"\x08\x80\x7f\x03",  # a footer longer than the file
        b"ORC" + bytes(100) + b"\x08\x04\x10\x70\x04",  # an unknown compression
        b"CRO" + bytes(100) + b"\x08\x04\x02",
    ):
        path.write_bytes(data)
        with pytest.raises(NotParquetError, match=r"a\.orc: not a"):
            parquet_bloom.prune(path, "k = 7")


def test_another_magic_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(Parts(write(path).read_bytes()).together(postscript={8000: b"CRO"}))
    with pytest.raises(NotParquetError, match="does not end as one"):
        parquet_bloom.prune(path, "k = 7")


# ------------------------------------------------------------------------------------------------------- statistics


def empty_statistics(data: bytes, keep: tuple[int, ...] = ()) -> bytes:
    """An uncompressed file of one stripe whose statistics, of stripe and row groups, count 0 values and no nulls.

    Parameters
    ----------
    keep : columns whose statistics stay as they are.
    """
    parts = Parts(data)
    changed = data
    metadata = parts.before[-parts.metadata_length :]
    columns = [value for _, _, value in fields_of(fields_of(metadata)[0][2])]
    for statistics in [value for column, value in enumerate(columns) if column not in keep]:
        new = message_of((n, w, 0 if n in (1, 10) else v) for n, w, v in fields_of(statistics))
        assert len(new) == len(statistics)
        changed = changed.replace(statistics, new)
    return changed


@pytest.mark.parametrize("keep", [(), (0,), (0, 1), (2,), (2, 4)])
def test_statistics_of_nothing(keep: tuple[int, ...], tmp_path: Path) -> None:
    """Of all columns, and of leaves alone: a struct that has values, whose fields have neither values nor nulls."""
    path = tmp_path / "a.orc"
    path.write_bytes(empty_statistics(write(tmp_path / "whole.orc").read_bytes(), keep))
    for where, expected in (
        *(("k = 7", 1), ("k IS NULL", 0), ("s.a = 7", 1), ("s.a IS NOT NULL", ROWS), ("s.a <> 7", ROWS - 1)),
        *(("s.a IN (7, 8)", 2), ("s.deep.b = 21", 1), ("s.deep.b > 21", ROWS - 8)),
    ):
        assert parquet_bloom.read_table(path, where).num_rows == expected, where
    assert len(parquet_bloom.prune(path, "list_contains(l, 7)").selected) == 1
    assert len(orc.open(path).stripes) == 1


def test_structs_that_are_null_still_rule_out_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    pa_orc.write_table(pa.table({"s": pa.array([None] * ROWS, pa.struct({"a": pa.int64()}))}), path)
    assert not parquet_bloom.prune(path, "s.a = 7").selected


def leaf_in(*kinds: int) -> OrcLeaf:
    """A bigint inside of columns of some kinds, each of which has one child."""
    names = {12: [b"f"], 10: [], 11: []}
    types: list[dict[str, Any]] = [{"kind": 12, "children": [1], "names": [b"c"]}]
    types += [{"kind": kind, "children": [i + 2], "names": names[kind]} for i, kind in enumerate(kinds)]
    return read_leaves([*types, {"kind": 4}])[0]


STRUCT, LIST = 12, 10


def test_counts_that_contradict_what_a_column_is_in() -> None:
    full, empty, nulls = Counts(10, False), Counts(0, False), Counts(0, True)
    some = [Counts(4, True)]
    for kinds, parents, own, has_values in (
        *(((), [], (0, False), None), ((), [], (0, None), False), ((), [], (0, True), False)),
        *(((), [], (9, False), None), ((), [], (10, False), True)),
        *(((STRUCT,), parents, (0, False), None) for parents in (None, [full], [empty])),
        *(((STRUCT,), [nulls], (0, False), False), ((STRUCT,), some, (4, False), True)),
        *(((STRUCT,), some, (3, False), None), ((STRUCT,), some, (5, None), None)),
        *(((STRUCT,), some, (3, True), True), ((STRUCT,), None, (4, False), True)),
        *(((STRUCT, STRUCT), [full, empty], (0, False), None), ((STRUCT, STRUCT), [full, nulls], (0, False), False)),
        *(((LIST,), [full], (0, False), False), ((LIST,), [empty], (0, False), None)),
        *(((LIST,), [None], (0, False), None), ((LIST,), [full], (99, False), True)),
    ):
        leaf = leaf_in(*kinds)
        types = [{"kind": STRUCT}, *({"kind": kind} for kind in kinds), {"kind": 4}]
        tail = OrcTail({"types": types}, Compression("none", 1), 0, 0, "java", None, 9, None)
        count, has_null = own
        message = message_of([(1, 0, count), *([] if has_null is None else [(10, 0, int(has_null))])])
        statistics = read_statistics(message, 0, len(message), leaf, tail, 10, parents)
        assert statistics.has_values is has_values, (kinds, parents, own)

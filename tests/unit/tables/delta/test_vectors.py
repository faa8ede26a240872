"""Deletion vectors in the log, in files beside the data and at any path; damaged ones, and ones that lead elsewhere."""

from __future__ import annotations

import os
import pickle
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from support.writers.delta_log import (
    add,
    beginning,
    column,
    commit,
    encode_vector,
    inline_vector,
    remove,
    stored_vectors,
    to_z85,
)

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.storage import resolve_filesystem
from parquet_bloom.tables.delta.delta_table import delta
from parquet_bloom.tables.delta.delta_vectors import DeletionVector, decode_z85
from parquet_bloom.tables.table_locations import resolve_delta_path

deltalake = pytest.importorskip("deltalake")
ROWS = 70_000  # more than one container of a bitmap


def positions(vector: DeletionVector, start: int = 0, stop: int = ROWS) -> list[int]:
    found = vector.find_positions(range(start, stop))
    assert found.dtype == np.int64
    some = np.arange(start, min(stop, ROWS), 7)
    assert vector.find_positions(some).tolist() == np.intersect1d(found, some).tolist()
    return found.tolist()


def make_table(root: Path, vectors: dict[str, dict[str, Any] | None], rows: int = ROWS) -> Path:
    """A table of files that all have the rows 0, 1 and so on, with these vectors."""
    root.mkdir(parents=True, exist_ok=True)
    adds = []
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array(np.zeros(rows, np.int64))}), sink)
    for name, vector in vectors.items():
        (root / name).write_bytes(sink.getvalue())
        members = {} if vector is None else {"deletionVector": vector}
        adds.append(add(name, (root / name).stat().st_size, {"numRecords": rows}, **members))
    commit(root, 0, [*beginning([column("id", "long")], features=["deletionVectors"]), *adds])
    return root


@pytest.mark.ci
def test_of_every_storage(tmp_path: Path) -> None:
    rng = random.Random(1)
    some = [sorted(rng.sample(range(ROWS), size)) for size in (1, 7, 3_000, 50_000)]
    some += [[*range(ROWS)], [0, 65_535, 65_536, ROWS - 1], []]
    root = tmp_path / "a table"
    described = [*map(inline_vector, some), *stored_vectors(root, some), *stored_vectors(root, some, prefix="ab")]
    described += stored_vectors(root / "x y", some, absolute=True)
    make_table(root, {"plain.parquet": None} | {f"{i}.parquet": vector for i, vector in enumerate(described)})
    snapshot = delta(root).read_snapshot()
    assert snapshot.deletes.keys() == {f"{root}/{i}.parquet" for i in range(len(described))}
    for number in range(len(described)):
        vector, rows = snapshot.deletes[f"{root}/{number}.parquet"], some[number % len(some)]
        assert isinstance(vector, DeletionVector)
        assert positions(vector) == rows
        start, stop = sorted(rng.sample(range(ROWS), 2))
        assert positions(vector, start, stop) == [row for row in rows if start <= row < stop]
        assert positions(pickle.loads(pickle.dumps(vector))) == rows
    theirs = pa.table(deltalake.DeltaTable(str(root)).deletion_vectors()).to_pylist()
    assert len(theirs) == len([rows for rows in some if rows]) * 4 or len(theirs) == len(described)
    for row in theirs:
        kept = row["selection_vector"] + [True] * (ROWS - len(row["selection_vector"]))
        mine = np.ones(ROWS, bool)
        mine[positions(snapshot.deletes[resolve_delta_path(row["filepath"], None)])] = False
        assert mine.tolist() == kept


def test_rows_beyond_four_billion() -> None:
    rows = [5, 2**32, 2**40 + 3, 2**62]
    vector = DeletionVector(inline_vector(rows), "a", "/t")
    assert positions(vector, 0, 2**63) == rows
    assert positions(vector, 6, 2**40 + 4) == rows[1:3]


def test_more_rows_than_a_row_group_has() -> None:
    rows = range(2**31)  # a few bytes as a bitmap, and 16 GiB as positions
    vector = DeletionVector(inline_vector(rows), "a", "/t")
    assert positions(vector, 2**30, 2**30 + 2) == [2**30, 2**30 + 1]
    with pytest.raises(ParquetBloomError, match=r"a: 2,147,483,648 of its rows 0 to .* are deleted"):
        positions(vector, 0, 2**62)


def test_it_is_read_when_rows_are(tmp_path: Path) -> None:
    (vector,) = stored_vectors(tmp_path / "t", [[3]])
    root = make_table(tmp_path / "t", {"a.parquet": vector, "b.parquet": None}, 10)
    (path,) = root.glob("*.bin")
    content = path.read_bytes()
    path.unlink()
    deletes = delta(root).read_snapshot().deletes  # deltalake does not read it either
    with pytest.raises(
        ParquetBloomError, match=r"a\.parquet: its deleted rows cannot be determined: .*deletion_vector_"
    ):
        positions(deletes[f"{root}/a.parquet"])  # type: ignore[arg-type]
    path.write_bytes(content)
    assert positions(deletes[f"{root}/a.parquet"]) == [3]  # type: ignore[arg-type]
    path.unlink()
    assert positions(deletes[f"{root}/a.parquet"]) == [3]  # type: ignore[arg-type]


def refusal(vector: Any, root: Path, outside: bool = False) -> str:
    with pytest.raises(ParquetBloomError) as caught:
        positions(DeletionVector(vector, f"{root}/a.parquet", str(root), None, outside))
    text = str(caught.value)
    assert text.startswith(f"{root}/a.parquet: its deleted rows cannot be determined: ")
    assert len(text.splitlines()) == 1
    return text


@pytest.mark.parametrize("features", [None, [], ["timestampNtz"]])
def test_a_table_without_the_feature_shows_no_rows_of_files_with_vectors(tmp_path: Path, features: Any) -> None:
    """Some readers apply such a vector, such as DuckDB, others show the deleted rows, such as Spark."""
    root, rows = tmp_path / "t", pa.table({"id": pa.array(range(10))})
    root.mkdir()
    adds = []
    for name, vector in {"a": inline_vector([3, 4]), "b": None}.items():
        pq.write_table(rows, root / name)
        members = {} if vector is None else {"deletionVector": vector}
        adds.append(add(name, (root / name).stat().st_size, {"numRecords": 10}, **members))
    commit(root, 0, [*beginning([column("id", "long")], features=features), *adds])
    snapshot = delta(root).read_snapshot()
    assert snapshot.deletes.keys() == {f"{root}/a"}
    pickle.loads(pickle.dumps(snapshot))
    expected = rf"^{root}/a: the log of {root} gives it a deletion vector, but the table lacks the feature .* add the"
    dataset = parquet_bloom.dataset(root)
    for show in (dataset.count_rows, dataset.to_table, lambda: parquet_bloom.read_table(root, "id = 7")):
        with pytest.raises(ParquetBloomError, match=expected):
            show()
    assert len(parquet_bloom.prune(root, "id = 7").files) == 2
    (root / "a").rename(root / "c")  # without numRecords deltalake does not list vectors at all
    commit(root, 1, [remove("a", deletionVector=inline_vector([3, 4])), remove("b")])
    commit(root, 2, [add("c", adds[0]["add"]["size"], deletionVector=inline_vector([3, 4]))])
    assert delta(root).read_snapshot().deletes.keys() == {f"{root}/c"}
    # The way out that the error names.
    feature = deltalake.TableFeatures.DeletionVectors
    deltalake.DeltaTable(root).alter.add_feature(feature, allow_protocol_versions_increase=True)
    assert parquet_bloom.dataset(root).count_rows() == 8


def test_vectors_that_lead_elsewhere(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    (absolute,) = stored_vectors(tmp_path, [[3]], absolute=True)
    assert "is outside of the table's folder; outside=True" in refusal(absolute, root)
    assert positions(DeletionVector(absolute, "a", str(root), None, True)) == [3]
    (relative,) = stored_vectors(tmp_path, [[3]])
    for prefix in ("..", "../", "x/../..", "/", "a//b", ".", "\0"):
        refusal(relative | {"pathOrInlineDv": prefix + relative["pathOrInlineDv"]}, root)
    (inside,) = stored_vectors(tmp_path, [[4]])
    name = max(tmp_path.glob("*.bin"), key=os.path.getmtime)
    os.symlink(name, root / name.name)
    assert "outside of the table's folder" in refusal(inside, root)
    for uri in ("a.bin", "../a.bin", "file://host/a.bin", "%FF", ""):
        refusal(absolute | {"pathOrInlineDv": uri}, root, outside=True)


def test_vectors_that_are_not_as_the_log_says(tmp_path: Path) -> None:
    rows = [1, 5, 9]
    good = inline_vector(rows)
    (stored,) = stored_vectors(tmp_path, [rows])
    assert "has 3 rows, and 4 by the log" in refusal(good | {"cardinality": 4}, tmp_path)
    assert "has 3 rows, and 2 by the log" in refusal(stored | {"cardinality": 2}, tmp_path)
    assert "by the log" in refusal(stored | {"sizeInBytes": stored["sizeInBytes"] - 1}, tmp_path)
    assert "cut short" in refusal(good | {"sizeInBytes": 1000}, tmp_path)
    refusal(good | {"sizeInBytes": 10}, tmp_path)
    refusal(good | {"sizeInBytes": 0}, tmp_path)
    assert "too large" in refusal(good | {"sizeInBytes": 2**40}, tmp_path)
    refusal(stored | {"sizeInBytes": 2**29}, tmp_path)
    refusal(stored | {"offset": 0}, tmp_path)
    refusal(stored | {"offset": 2**40}, tmp_path)
    assert "stored as 'x', which is not supported" in refusal(good | {"storageType": "x"}, tmp_path)
    assert "is not Z85" in refusal(good | {"pathOrInlineDv": "ab'cd"}, tmp_path)
    assert "is not Z85" in refusal(good | {"pathOrInlineDv": "éabcd"}, tmp_path)
    assert "is not Z85" in refusal(good | {"pathOrInlineDv": "#####"}, tmp_path)  # above 2**32
    other = struct.pack("<i", 1681511376) + encode_vector(rows)[4:]
    text = refusal(good | {"pathOrInlineDv": to_z85(other + b"\0" * (-len(other) % 4))}, tmp_path)
    assert "format 1681511376, which is not supported" in text
    for vector in (None, 5, [], {}, "abc", {"storageType": "i"}):
        refusal(vector, tmp_path)
    for name in good:
        for value in (None, -1, "1", 1.5, True, [], {}):
            refusal(good | {name: value}, tmp_path)


def test_damaged_files(tmp_path: Path) -> None:
    (stored,) = stored_vectors(tmp_path, [[1, 5, 9]])
    (path,) = tmp_path.glob("*.bin")
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :])
        refusal(stored, tmp_path)
        path.write_bytes(content[:at])
        refusal(stored, tmp_path)
    path.write_bytes(b"\2" + content[1:])
    assert "a vector file of version 2, which is not supported" in refusal(stored, tmp_path)
    path.write_bytes(content)
    assert positions(DeletionVector(stored, "a", str(tmp_path))) == [1, 5, 9]


@pytest.mark.ci
def test_bitmaps_that_are_made_to_harm(tmp_path: Path) -> None:
    """With a right checksum: contents that are out of order, too many, cut short or random never show rows."""
    rng = random.Random(3)
    good = encode_vector([*range(100), *range(70_000, 80_000), 2**33])
    for _ in range(400):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(4, len(data))] = rng.randrange(256)
        made = bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
        path = tmp_path / "deletion_vector_00000000-0000-0000-0000-000000000000.bin"
        path.write_bytes(b"\1" + struct.pack(">i", len(made)) + made + struct.pack(">I", zlib.crc32(made)))
        vector = {"storageType": "u", "pathOrInlineDv": to_z85(bytes(16)), "offset": 1, "sizeInBytes": len(made)}
        try:
            found = positions(DeletionVector(vector | {"cardinality": 10_101}, "a", str(tmp_path)), 0, 2**63)
        except ParquetBloomError as error:
            refused = str(error)
            assert len(refused.splitlines()) == 1
        else:
            assert len(found) == 10_101
            assert found == sorted(set(found))


def test_z85() -> None:
    assert decode_z85("HelloWorld") == bytes.fromhex("864fd26fb559f75b")  # ZeroMQ's own example
    assert decode_z85("") == b""
    data = random.Random(5).randbytes(400)
    assert decode_z85(to_z85(data)) == data
    example = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"  # as Spark wrote it
    vector = {"storageType": "i", "pathOrInlineDv": example, "sizeInBytes": 44, "cardinality": 6}
    assert positions(DeletionVector(vector, "a", "/t")) == [3, 4, 7, 11, 18, 29]


def test_in_an_object_store(s3: Any) -> None:
    options = s3.storage_options | {"allow_http": True}
    rows = [1, 5]
    data = encode_vector(rows)
    content = b"\1" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    name = "deletion_vector_00000000-0000-0000-0000-000000000000.bin"
    s3.put(f"a table/{name}", content)
    described = {"offset": 1, "sizeInBytes": len(data), "cardinality": 2}
    relative = {"storageType": "u", "pathOrInlineDv": to_z85(bytes(16))} | described
    absolute = {"storageType": "p", "pathOrInlineDv": s3.url(f"a%20table/{name}")} | described
    filesystem = resolve_filesystem(None, options)
    for vector in (relative, absolute):
        assert positions(DeletionVector(vector, "a", s3.url("a table"), filesystem)) == rows
        with pytest.raises(ParquetBloomError) as caught:
            positions(DeletionVector(vector, "a", s3.url("b"), filesystem))
        assert isinstance(caught.value.__cause__, StorageError) is (vector is relative)


def test_pyroaring_validates_what_it_reads() -> None:
    """The reader relies on it: a container that lies about its cardinality would be written beyond an array's end."""
    container = struct.pack("<IIHHI", 12346, 1, 0, 4999, 16) + b"\xff" * 8192
    with pytest.raises(ValueError, match="cardinality"):
        BitMap64.deserialize(struct.pack("<QI", 1, 0) + container)

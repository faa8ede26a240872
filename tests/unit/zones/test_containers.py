"""Zone indexes in files of other programs and in damaged files: opened or rejected, and no row is lost."""

from __future__ import annotations

import json
import os
import random
import struct
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers.zone_tables import INTS, answered, table_of

from parquet_bloom import zones
from parquet_bloom.core.hash.xxh64 import hash_one
from parquet_bloom.errors import BrokenZonesError, ParquetBloomError, StorageError
from parquet_bloom.zones.zone_manifest import SCHEMA


def as_parquet(**options):
    return lambda table, path: pq.write_table(table, path, **options)


def as_arrow(compression=None, stream=False, batch=2):
    def write(table, path):
        make = pa.ipc.new_stream if stream else pa.ipc.new_file
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.OSFile(str(path), "wb") as sink, make(sink, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=batch)

    return write


WRITERS = {
    "parquet": as_parquet(),
    "parquet, plain": as_parquet(compression="none", use_dictionary=False),
    "parquet, compressed": as_parquet(compression="zstd", row_group_size=3),
    "parquet, pages": as_parquet(compression="none", use_dictionary=False, data_page_size=1, write_batch_size=1),
    "parquet, version 2": as_parquet(data_page_version="2.0", compression="gzip"),
    "arrow": as_arrow(),
    "arrow, one batch": as_arrow(batch=100),
    "arrow, compressed": as_arrow("zstd"),
    "arrow, stream": as_arrow(stream=True),
}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", WRITERS)
def test_a_table_of_any_writer(name, wide, tmp_path):
    table, _ = table_of(INTS)
    stored_values = zones.open(table, value_type=pa.int8())
    if wide:
        table = table.set_column(4, "bloom_filter_data", table["bloom_filter_data"].cast(pa.large_binary()))
        table = table.select([4, 1, 0, 3, 2])
    WRITERS[name](table.replace_schema_metadata(stored_values.metadata), tmp_path / "z")
    with zones.open(tmp_path / "z", value_type=pa.int8(), column="c") as index:
        assert (index.column, index.items, index.probability) == ("c", 8, 0.01)
        assert index.to_table().equals(stored_values.to_table(), check_metadata=True) or "parquet" in name
        assert index.to_table().equals(stored_values.to_table())
        for value in (*range(-10, 20), None):
            assert answered(index.equals(value)) == answered(stored_values.equals(value))
        assert answered(index.is_in(list(range(100)))) == answered(stored_values.is_in(list(range(100))))


def built(tmp_path, container):
    path = tmp_path / "lake.parquet"
    if not path.exists():
        pq.write_table(pa.table({"id": [None if i == 700 else i for i in range(1000)]}), path, row_group_size=400)
    zones.build(path, "id", tmp_path / f"z.{container}", rows_per_zone=100)
    return tmp_path / f"z.{container}"


@pytest.mark.parametrize("container", ["parquet", "arrow"])
def test_a_file_that_another_program_wrote_again(container, tmp_path):
    """Its metadata kept, its filters compressed, in pages or in other row groups: found all the same."""
    index = zones.open(built(tmp_path, container))
    expected = [answered(index.equals(value)) for value in (5, 450, 999)]
    table = index.to_table()
    for name, write in WRITERS.items():
        write(table, tmp_path / "again")
        with zones.open(tmp_path / "again") as again:
            assert [answered(again.equals(value)) for value in (5, 450, 999)] == expected, name
            assert again.files == index.files


@pytest.mark.ci
@pytest.mark.parametrize("container", ["parquet", "arrow"])
def test_damaged_files_are_refused_in_a_line(container, tmp_path):
    """Of anything but the filters; what of these is damaged cannot be seen, and damage may lose what it hit."""
    path = built(tmp_path, container)
    content = path.read_bytes()
    intact = zones.open(path)
    expected, filters = intact.zones.copy(), {*intact.to_table()["bloom_filter_data"].to_pylist()}
    rng = random.Random(5)
    refused = []
    damaged = [content[:length] for length in rng.sample(range(len(content)), 30)]
    for _ in range(150):
        data = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        damaged.append(bytes(data))
    target = tmp_path / "damaged"
    for data in damaged:
        target.write_bytes(data)
        try:
            with zones.open(target) as index:
                assert (index.zones == expected).all()
                if index.files is None:  # the name of what it says of them was hit
                    assert index.equals(5).num_rows == len(expected)
                    continue
                assert [file.path for file in index.files] == [str(tmp_path / "lake.parquet")]
                result = index.to_table()["bloom_filter_data"].to_pylist()
                assert len(result) == len(expected)
                assert len({*result} - filters) <= 3
                index.equals(5)
        except ParquetBloomError as error:
            refused.append(str(error))
    assert len(refused) > 20
    assert not any("\n" in text or len(text) > 600 for text in refused)


def resealed(table, change):
    """The table, its metadata changed, under a checksum that fits."""
    metadata = dict(table.schema.metadata)
    document = json.loads(metadata[b"parquet_bloom.zones"])
    change(document)
    data = json.dumps(document).encode()
    zones_bytes = b"".join(
        table[name].to_numpy().astype(kind).tobytes()
        for name, kind in zip(SCHEMA.names[:4], ["<u8", "<u8", "<u8", "u1"], strict=True)
    )
    checksum = b"%016x" % hash_one(data + zones_bytes)
    return table.replace_schema_metadata(
        metadata | {b"parquet_bloom.zones": data, b"parquet_bloom.zones.checksum": checksum}
    )


def put(*path_and_value):
    *path, last, value = path_and_value

    def change(document):
        for step in path:
            document = document[step]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put("version", 3), "of version 3"),
        (put("version", [1]), r"of version \[1\]"),
        (put("hashing", "plain"), "manifest is invalid"),
        (put("column", 5), "manifest is invalid"),
        (put("files", "path", []), "manifest is invalid"),
        (put("files", "type", [1]), "manifest is invalid"),
        (put("files", "stamp", ["xy"]), "manifest is invalid"),
        (put("files", "row_groups", [2]), "manifest is invalid"),
        (put("files", "row_groups", [-3]), "manifest is invalid"),
        (put("files", None), "manifest is invalid"),
        (put("types", 0, "kind", "smell"), "manifest is invalid"),
        (put("types", 0, "physical", "BOOLEAN"), "manifest is invalid"),
        (put("types", 0, "length", "x"), "manifest is invalid"),
        (put("types", 0, "more", 1), "manifest is invalid"),
        (put("fragments", "num_rows", [400, 400]), "manifest is invalid"),
        (put("fragments", "num_rows", [400, 400, -200]), "manifest is invalid"),
        (put("fragments", "num_rows", [400, 400, 10**30]), "manifest is invalid"),
        (put("fragments", "num_rows", [400, 400, 201]), "do not divide the rows"),
        (put("fragments", "row_group", [0, 2, 1]), "manifest is invalid"),
    ],
)
def test_metadata_that_cannot_be(change, problem, tmp_path):
    table = zones.open(built(tmp_path, "arrow")).to_table()
    assert len(zones.open(resealed(table, lambda document: None))) == 10
    with pytest.raises(BrokenZonesError, match=problem):
        zones.open(resealed(table, change))


def test_zones_that_leave_rows_out_are_refused(tmp_path):
    """They would be lost."""
    table = zones.open(built(tmp_path, "arrow")).to_table()
    gone = [table.slice(1), table.slice(0, 9), pa.concat_tables([table.slice(0, 3), table.slice(4)])]
    swapped = table.take([1, 0, *range(2, 10)])
    for some in (*gone, swapped, table.slice(0, 0)):
        with pytest.raises(BrokenZonesError, match="do not divide the rows"):
            zones.open(resealed(some, lambda document: None))
        with pytest.raises(BrokenZonesError, match="checksum"):
            zones.open(some)


def test_a_wrong_size_of_filters_is_not_gone_by(tmp_path):
    """The places of filters follow from it, in Parquet: it is looked whether they are there, and are of that size."""
    path = built(tmp_path, "parquet")
    table = resealed(zones.open(path).to_table(), put("filter_bytes", 128))
    pq.write_table(table, path, compression="none", use_dictionary=False)
    with zones.open(path) as index, pytest.raises(BrokenZonesError, match="a filter of"):
        index.equals(5)


@pytest.mark.parametrize(
    "data",
    [b"", b"x" * 15, b"x" * 100, b"PAR1" * 20, b"ARROW1\0\0" * 20, b"\xff" * 100, b"x" * 96 + b"LANC"],
)
def test_files_that_are_not_an_index(data, tmp_path):
    if data.endswith(b"LANC"):
        pytest.importorskip("lance")
    (tmp_path / "z").write_bytes(data)
    with pytest.raises(BrokenZonesError) as caught:
        zones.open(tmp_path / "z")
    assert "\n" not in str(caught.value)


def test_offsets_that_lead_nowhere(tmp_path):
    for location in (tmp_path / "missing", tmp_path / "missing" / "z"):
        with pytest.raises(StorageError):
            zones.open(location)
    with pytest.raises(BrokenZonesError, match="not a Lance dataset"):
        zones.open(tmp_path)
    with pytest.raises(ParquetBloomError, match="those of column 'id'"):
        zones.open(built(tmp_path, "arrow"), column="other")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "other.parquet")
    with pytest.raises(BrokenZonesError, match="no columns of the name fragment_id"):
        zones.open(tmp_path / "other.parquet")


def test_a_huge_number_of_zones_is_not_allocated(tmp_path):
    """An Arrow file that says so, and a Parquet file whose nulls say so."""
    table, _ = table_of(INTS)
    as_arrow(batch=100)(table, tmp_path / "z")
    data = bytearray((tmp_path / "z").read_bytes())
    rows = struct.pack("<q", 4)
    position = data.find(rows)
    while position >= 0:
        broken = bytearray(data)
        broken[position : position + 8] = struct.pack("<q", 1 << 40)
        (tmp_path / "huge").write_bytes(broken)
        try:
            with zones.open(tmp_path / "huge") as index:
                assert len(index) == 4
        except ParquetBloomError:
            pass
        position = data.find(rows, position + 1)


def test_pylance_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lance", None)
    monkeypatch.setitem(sys.modules, "lance.file", None)
    (tmp_path / "z").write_bytes(b"x" * 96 + b"LANC")
    (tmp_path / "set.lance" / "_versions").mkdir(parents=True)
    for location in (tmp_path / "z", tmp_path / "set.lance"):
        with pytest.raises(ParquetBloomError, match=r"pip install 'parquet-bloom\[lance\]'"):
            zones.open(location)


def test_an_index_that_is_changed_while_it_is_open(tmp_path):
    path = built(tmp_path, "arrow")
    with zones.open(path) as index:
        with open(path, "r+b") as file:
            file.seek(3000)
            file.write(b"x")
        os.utime(path, (1, 1))
        with pytest.raises(ParquetBloomError, match="changed while"):
            index.check(np.arange(10), np.array([1], np.uint64))

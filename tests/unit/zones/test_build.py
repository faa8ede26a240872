"""Zone indexes over Parquet files: their contents, what lookups read, and the files that they cover."""

from __future__ import annotations

import base64
import json
import os
import random
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.processes.file_size import largest_file
from support.servers.counted import CountedFileSystem
from support.writers import peers, surgery

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.errors import (
    ConcurrentChangeError,
    NotParquetError,
    ParquetBloomError,
    StorageError,
    TruncatedFileError,
    UnknownColumnError,
    UnreadableColumnError,
    UnsupportedTypeError,
)
from parquet_bloom.file import identity
from parquet_bloom.zones import zone_builder
from parquet_bloom.zones.zone_manifest import SCHEMA

KINDS = [name for name in peers.VALUES if name not in ("bool", "li", "ma", "ls", "st")]
CONTAINERS = ("parquet", "arrow")


def answered(answer):
    return {(row["fragment_id"], row["zone_start"]) for row in answer.to_pylist()}


def of_zones(path, column, rows):
    """For each zone of a file, as it should be: row group, first row, its values."""
    file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    for row_group in range(file.num_row_groups):
        values = file.read_row_group(row_group, columns=[column]).column(0)
        for start in range(0, len(values), rows):
            yield row_group, start, values.slice(start, rows)


@pytest.mark.ci
@pytest.mark.parametrize("name", KINDS)
def test_no_value_is_lost_and_filters_are_those_of_lance(name, tmp_path):
    """Of every type, stored as writers do."""
    rng = random.Random(name)
    path = tmp_path / "a.parquet"
    options = {"compression": rng.choice(["none", "snappy"]), "use_dictionary": rng.choice([True, False])}
    if name in ("ts_s", "ts_us", "ts_ms"):
        options["use_deprecated_int96_timestamps"] = name == "ts_us"
    if name.startswith("d") and name != "date":
        options["store_decimal_as_integer"] = rng.choice([True, False])
    pq.write_table(peers.arrow_table([name]), path, row_group_size=peers.DISTINCT, **options)
    report = zones.build(path, name, tmp_path / "z.arrow", rows_per_zone=50, fpp=0.001)
    assert (report.files, report.fragments, report.zones, report.failed) == (1, 3, 9, {})
    with zones.open(tmp_path / "z.arrow") as index:
        assert index.column == name
        filters = index.to_table()["bloom_filter_data"].to_pylist()
        there = list(of_zones(path, name, 50))
        assert len(there) == len(index) == len(filters)
        for zone, (row_group, start, values) in enumerate(there):
            result = index.zones[zone]
            assert (result["fragment_id"], result["zone_start"], result["zone_length"]) == (
                row_group,
                start,
                len(values),
            )
            assert result["has_null"] == (values.null_count > 0)
            if not options.get("use_deprecated_int96_timestamps"):
                assert filters[zone] == zones.lance_filter(values, 50, 0.001)
        for row_group, start, values in there[::4]:
            for value in [each for each in values if each.is_valid][::5]:
                assert (row_group, start) in answered(index.equals(value)), value
        nulls = {(row_group, start) for row_group, start, values in there if values.null_count}
        assert answered(index.is_null()) == nulls


@pytest.mark.parametrize("name", ["u8", "i64", "f64", "d18", "str", "uuid"])
def test_what_is_absent_is_not_found(name, tmp_path):
    """So that the tests of what is found can fail."""
    pq.write_table(peers.arrow_table([name]), tmp_path / "a.parquet", row_group_size=peers.DISTINCT)
    zones.build(tmp_path / "a.parquet", name, tmp_path / "z.arrow", rows_per_zone=20, fpp=1e-5)
    with zones.open(tmp_path / "z.arrow") as index:
        value = peers.arrow_array([peers.VALUES[name].always[0]], peers.VALUES[name].arrow)[0]
        expected = {
            (g, s) for g, s, values in of_zones(tmp_path / "a.parquet", name, 20) if value in values.to_pylist()
        }
        assert answered(index.equals(value)) >= expected
        there = [(g, s, v) for g, s, v in of_zones(tmp_path / "a.parquet", name, 20)]
        expected = {(g, s) for g, s, values in there if any(each == value for each in values)}
        assert expected <= answered(index.equals(value))
        assert len(answered(index.equals(value))) < len(there)


def lake(tmp_path, files=3, rows=1000, group=300):
    folder = tmp_path / "lake"
    folder.mkdir()
    for number in range(files):
        ids = [None if i % 250 == 249 else number * rows + i for i in range(rows)]
        table = pa.table({"id": pa.array(ids, pa.int64()), "s": {"t": pa.array([f"t{i}" for i in ids])}["t"]})
        table = table.append_column("deep", pa.array([{"er": i} if i != 7 else None for i in range(rows)]))
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=group)
    return folder


@pytest.mark.parametrize("container", CONTAINERS)
def test_files_row_groups_and_rows(container, tmp_path, monkeypatch):
    folder = lake(tmp_path)
    for name in ("_BUFFER_BYTES", "_BYTES_PER_BATCH"):  # filters are put aside, and written, in several pieces
        monkeypatch.setattr(zone_builder, name, 1024)
    done = []
    target = tmp_path / "z.index"
    report = zones.build(
        folder, "id", target, rows_per_zone=64, container=container, threads=3, progress=lambda *at: done.append(at)
    )
    assert done == [(1, 3), (2, 3), (3, 3)]
    assert (report.files, report.fragments, report.zones, report.rows) == (3, 12, 3 * (3 * 5 + 2), 3000)
    assert report.num_bytes == os.path.getsize(target)
    with zones.open(target) as index:
        assert [file.path for file in index.files] == [str(folder / f"{i}.parquet") for i in range(3)]
        assert index.fragments[4:6] == [(str(folder / "1.parquet"), 0, 300), (str(folder / "1.parquet"), 1, 300)]
        assert index.of_file(f"{folder}/../lake/1.parquet") == 1
        monkeypatch.chdir(folder)
        assert index.of_file("2.parquet") == 2
        assert index.of_file("3.parquet") is None
        result = index.zones_of(1)
        assert result.row_group.tolist() == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 2
        assert result.start.tolist()[:6] == [0, 64, 128, 192, 256, 0]
        assert result.length.tolist()[-3:] == [44, 64, 36]
        assert result.has_null.tolist() == [i in (3, 8, 12, 16) for i in range(17)]
        assert index.zones[result.zones]["fragment_id"].tolist() == (4 + result.row_group).tolist()
        hashes, _ = zones.keying([1310], index.column_type)
        (hit,) = np.flatnonzero(index.check(result.zones, hashes))
        assert (result.row_group[hit], result.start[hit]) == (1, 0)
        many, _ = zones.keying(list(range(1600, 1700)), index.column_type)  # more than there are blocks: read whole
        hits = np.flatnonzero(index.check(result.zones, many))
        assert [(result.row_group[i], result.start[i]) for i in hits] == [(2, 0), (2, 64)]
        filters = index.to_table()["bloom_filter_data"].to_pylist()
        assert filters == [
            zones.lance_filter(values, 64)
            for number in range(3)
            for _, _, values in of_zones(folder / f"{number}.parquet", "id", 64)
        ]
        assert [bitset.tobytes() for bitset in index.bitsets(5, 9)] == filters[5:14]


def test_both_containers_hold_the_same_and_any_reader_reads_them(tmp_path):
    folder = lake(tmp_path)
    for container in CONTAINERS:
        zones.build(folder, "s", tmp_path / f"z.{container}", rows_per_zone=64)
    tables = [zones.open(tmp_path / f"z.{container}").to_table() for container in CONTAINERS]
    assert tables[0].equals(tables[1], check_metadata=True)
    assert tables[0].schema == SCHEMA
    assert pq.read_table(tmp_path / "z.parquet").equals(tables[0])
    with pa.ipc.open_file(tmp_path / "z.arrow") as reader:
        assert reader.read_all().equals(tables[0])
    assert duckdb.sql(f"SELECT count(DISTINCT fragment_id) FROM '{tmp_path}/z.parquet'").fetchall() == [(12,)]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_lookup_reads_blocks_and_not_filters(container, tmp_path):
    folder = lake(tmp_path, files=1, rows=100_000, group=100_000)
    report = zones.build(folder, "id", tmp_path / f"z.{container}")
    files = {"z": (tmp_path / f"z.{container}").read_bytes()}
    counted = CountedFileSystem(files)
    with zones.open("z", counted) as index:
        if container == "arrow":  # what pyarrow reads itself, fsspec reads ahead of
            opened = sum(end - start for start, end in counted.ranges_read)
            assert opened < 140_000 < report.num_bytes / 2
        counted.ranges_read.clear()
        assert answered(index.equals(77_777)) == {(0, 73_728)}
    assert sum(end - start for start, end in counted.ranges_read) <= report.num_bytes

    with zones.open(tmp_path / f"z.{container}") as index:
        source = index._source
        before = source.bytes_read
        assert answered(index.equals(77_777)) == {(0, 73_728)}
        assert source.bytes_read - before <= 32 * report.zones + 600


def test_columns_of_structs_and_what_has_no_zones(tmp_path):
    folder = lake(tmp_path, files=1)
    table = pa.table({"b": [True], "l": [[1]], "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "X": [1]})
    pq.write_table(table.append_column("x", pa.array([1])), tmp_path / "odd.parquet")
    zones.build(folder, "deep.er", tmp_path / "z.arrow", rows_per_zone=100)
    with zones.open(tmp_path / "z.arrow") as index:
        assert answered(index.is_null()) == {(0, 0)}
        assert answered(index.equals(301)) == {(1, 0)}
    for column, error, problem in (
        ("deep", UnknownColumnError, "use 'deep.er'"),
        ("ID", UnknownColumnError, "no such column"),
    ):
        with pytest.raises(error, match=problem):
            zones.build(folder, column, tmp_path / "no.arrow")
    for column, error, problem in (
        ("b", UnsupportedTypeError, "BOOLEAN"),
        ("l.list.element", UnsupportedTypeError, "lists and maps"),
        ("m", UnknownColumnError, "the name matches 2 columns"),
        ("x", UnknownColumnError, "by their case only"),
    ):
        with pytest.raises(error, match=problem):
            zones.build(tmp_path / "odd.parquet", column, tmp_path / "no.arrow")
    assert not (tmp_path / "no.arrow").exists()


def test_files_that_cannot_be_covered_are_left_out_and_named(tmp_path):
    folder = lake(tmp_path)
    (folder / "broken.parquet").write_bytes(b"PAR1 is not all PAR1")
    pq.write_table(pa.table({"other": [1]}), folder / "other.parquet")
    data = (folder / "1.parquet").read_bytes()
    start = pq.ParquetFile(folder / "1.parquet").metadata.row_group(2).column(0).data_page_offset
    (folder / "1.parquet").write_bytes(data[:start] + b"\xff" * 50 + data[start + 50 :])
    report = zones.build(folder, "id", tmp_path / "z.parquet", rows_per_zone=64)
    assert {os.path.basename(path): type(error) for path, error in report.failed.items()} == {
        "1.parquet": UnreadableColumnError,
        "broken.parquet": TruncatedFileError,
        "other.parquet": UnknownColumnError,
    }
    assert all("\n" not in str(error) for error in report.failed.values())
    with zones.open(tmp_path / "z.parquet") as index:
        assert [os.path.basename(file.path) for file in index.files] == ["0.parquet", "2.parquet"]
        assert [answered(index.equals(value)) for value in (5, 2005)] == [{(0, 0)}, {(4, 0)}]
        result = index.zones_of(1)
        assert index.check(result.zones, zones.keying([2005], index.column_type)[0]).tolist() == [True] + [False] * 16


def test_no_file_at_all(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.parquet").write_bytes(b"no Parquet, though long enough to be one")
    (tmp_path / "z.arrow").write_bytes(b"old")
    with pytest.raises(ParquetBloomError, match="there are no files"):
        zones.build(tmp_path / "empty", "id", tmp_path / "z.arrow")
    with pytest.raises(NotParquetError, match=r"text\.parquet"):
        zones.build(tmp_path / "text.parquet", "id", tmp_path / "z.arrow")
    with pytest.raises(StorageError):
        zones.build(tmp_path / "missing", "id", tmp_path / "z.arrow")
    assert (tmp_path / "z.arrow").read_bytes() == b"old"


def test_where_an_index_may_be(tmp_path):
    folder = lake(tmp_path, files=1)
    for target, problem in (
        (folder / "z.parquet", "would be taken for one of its files"),
        (folder / "sub" / "z.arrow", "would be taken for one of its files"),
        (tmp_path / "z.txt", "the container is unknown"),
        (tmp_path / "no" / "z.arrow", "there is no folder"),
    ):
        with pytest.raises(ParquetBloomError, match=problem):
            zones.build(folder, "id", target)
    with pytest.raises(ParquetBloomError, match="one of the files to be indexed"):
        zones.build(folder / "0.parquet", "id", folder / "0.parquet")
    zones.build(folder, "id", folder / "_z.parquet")
    (folder / "_zones").mkdir()
    zones.build(folder, "id", folder / "_zones" / "z.parquet")
    zones.build(folder / "0.parquet", "id", folder / "beside.arrow")  # a file was named: no folder will be listed
    for wrong in ({"rows_per_zone": 0}, {"fpp": 1}, {"container": "orc"}, {"threads": 0}):
        with pytest.raises(ValueError):
            zones.build(folder / "0.parquet", "id", tmp_path / "z.arrow", **wrong)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("share", [0.01, 0.5, 0.95])
def test_an_index_is_written_whole_or_not_at_all(container, share, tmp_path):
    folder, target = lake(tmp_path), tmp_path / f"z.{container}"
    zones.build(folder, "id", target, rows_per_zone=50)
    before = target.read_bytes()
    with largest_file(int(share * len(before))), pytest.raises(StorageError):
        zones.build(folder, "id", target, rows_per_zone=50)
    assert target.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["lake", target.name]


def test_a_file_that_changes_meanwhile_is_left_out(tmp_path, monkeypatch):
    folder = lake(tmp_path)
    genuine = zone_builder.chunk_bytes_fingerprint

    def meddling(source, *more):
        if source.name.endswith("1.parquet"):
            with open(source.name, "r+b") as file:
                file.write(b"PAR1")
            os.utime(source.name, (1, 1))
        return genuine(source, *more)

    monkeypatch.setattr(zone_builder, "chunk_bytes_fingerprint", meddling)
    report = zones.build(folder, "id", tmp_path / "z.arrow")
    assert [type(error) for error in report.failed.values()] == [ConcurrentChangeError]
    assert report.files == 2


@pytest.mark.usefixtures("settled_tokens")
def test_states_of_files(tmp_path):
    folder = lake(tmp_path, files=6)
    zones.build(folder, "id", tmp_path / "z.arrow")
    with zones.open(tmp_path / "z.arrow") as index:
        assert zone_builder.file_states(index) == ["current"] * 6
        parquet_bloom.embed(folder / "0.parquet", "id")  # no such change
        os.utime(folder / "1.parquet", (5, 5))  # nor this
        (folder / "2.parquet").unlink()
        table = pq.read_table(folder / "3.parquet")
        changed = table.set_column(0, "id", pa.array([9] * 1000, pa.int64()))
        pq.write_table(changed, folder / "3.parquet", row_group_size=300)
        (folder / "4.parquet").write_bytes(b"x")
        assert zone_builder.file_states(index) == ["current", "current", "gone", "changed", "changed", "current"]
        assert index.of_file(folder / "0.parquet") == 0


def test_row_groups_without_rows_and_files_without_any(tmp_path):
    schema = pa.schema([("id", pa.int64())])
    with pq.ParquetWriter(tmp_path / "a.parquet", schema) as writer:
        for rows in ([1], [], [2]):
            writer.write_batch(pa.record_batch([pa.array(rows, pa.int64())], schema=schema))
    pq.write_table(schema.empty_table(), tmp_path / "b.parquet")
    report = zones.build([tmp_path / "a.parquet", tmp_path / "b.parquet"], "id", tmp_path / "z.parquet")
    assert (report.files, report.rows, report.failed) == (2, 2, {})
    with zones.open(tmp_path / "z.parquet") as index:
        assert index.zones_of(1).zones.tolist() == []
        assert index.equals(2).num_rows == 1
    report = zones.build(tmp_path / "b.parquet", "id", tmp_path / "none.parquet")
    for container in CONTAINERS:
        zones.build(tmp_path / "b.parquet", "id", tmp_path / f"none.{container}")
        assert zones.open(tmp_path / f"none.{container}").equals(1).num_rows == 0


def test_files_of_several_types_are_probed_each_in_its_own(tmp_path):
    pq.write_table(pa.table({"id": pa.array([5], pa.int8())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([5, 6], pa.int64())}), tmp_path / "b.parquet")
    zones.build([tmp_path / "a.parquet", tmp_path / "b.parquet"], "id", tmp_path / "z.arrow")
    with zones.open(tmp_path / "z.arrow") as index:
        assert [str(file.column_type) for file in index.files] == ["INT32 INT_8", "INT64"]
        assert answered(index.equals(5)) == {(0, 0), (1, 0)}
        assert answered(index.equals(6)) == {(1, 0)}
        assert index.check(index.zones_of(0).zones, zones.keying([5], index.files[0].column_type)[0]).all()


def test_values_outside_of_their_type_are_refused(tmp_path):
    pq.write_table(pa.table({"id": pa.array([5, 300], pa.int32())}), tmp_path / "a.parquet")
    int8 = oracle.Struct({10: ("struct", oracle.Struct({1: ("i8", 8), 2: ("bool", True)}))})
    surgery.relabel(tmp_path / "a.parquet", "id", int8)
    with pytest.raises(UnreadableColumnError, match="outside its type"):
        zones.build(tmp_path / "a.parquet", "id", tmp_path / "z.arrow")


def test_metadata_is_what_the_documentation_says(tmp_path):
    folder = lake(tmp_path, files=2)
    zones.build(folder, "id", tmp_path / "z.parquet", rows_per_zone=100)
    metadata = pq.read_metadata(tmp_path / "z.parquet").metadata
    assert (metadata[b"bloomfilter_item"], metadata[b"bloomfilter_probability"]) == (b"100", b"0.00057")
    scheme, _, text = metadata[b"parquet_bloom.zones"].partition(b":")
    data = zlib.decompress(base64.b64decode(text))
    document = json.loads(data)
    assert (scheme, document["version"], document["column"], document["hashing"]) == (b"zlib", 2, "id", "native")
    assert document["filter_bytes"] == 256
    assert len(bytes.fromhex(metadata[b"parquet_bloom.zones.seal"].decode())) == 16
    assert document["fragments"] == {"row_group": [0, 1, 2, 3] * 2, "num_rows": [300, 300, 300, 100] * 2}
    assert document["files"]["row_groups"] == [4, 4]
    table = pq.read_table(tmp_path / "z.parquet")
    bits = np.packbits(table["has_null"].to_numpy())
    assert (document["zones"]["rows"], base64.b64decode(document["zones"]["has_null"])) == (100, bits.tobytes())
    for name in ("fragment_id", "zone_start", "zone_length"):
        data += table[name].to_numpy().astype("<u8").tobytes()
    data += table["has_null"].to_numpy().astype("u1").tobytes()
    assert metadata[b"parquet_bloom.zones.checksum"] == b"%016x" % oracle.xxh64(data)


def test_threads_share_an_index(tmp_path):
    folder = lake(tmp_path)
    for container in CONTAINERS:
        zones.build(folder, "id", tmp_path / f"z.{container}", rows_per_zone=64)
        with zones.open(tmp_path / f"z.{container}") as index, ThreadPoolExecutor(8) as pool:
            counts = list(pool.map(lambda value, index=index: index.equals(value).num_rows, range(0, 3000, 50)))
        assert min(counts) == 1
        assert sum(counts) < 80


@pytest.mark.ci
def test_building_waits_for_files_that_were_written_just_now(tmp_path, monkeypatch):
    monkeypatch.undo()  # so that it waits for two seconds
    folder = lake(tmp_path, files=1)
    os.utime(folder / "0.parquet")
    zones.build(folder, "id", tmp_path / "z.arrow")
    with zones.open(tmp_path / "z.arrow") as index:
        assert index.files[0].stamp != identity.NO_TOKEN
    assert time.time() > os.stat(folder / "0.parquet").st_ctime

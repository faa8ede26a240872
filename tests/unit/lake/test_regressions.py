"""Regressions in the lake index: lost rows and tracebacks."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.index_files import change_file_tables, read_manifest, seal_manifest

import parquet_bloom
from parquet_bloom.core.hash.xxh64 import hash_one
from parquet_bloom.errors import BrokenIndexError, ParquetBloomError, StorageError
from parquet_bloom.hashing.column_type import from_arrow, type_from_json, type_to_json
from parquet_bloom.lake.lake_index import LakeIndex

pytestmark = pytest.mark.usefixtures("settled_tokens")


def put(path: Path, *ids: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
    return str(path)


def find_paths(index: LakeIndex, value: Any, column: str = "id") -> set[str]:
    return {candidate.path for candidate in index.lookup(column, [value])[0]}


@pytest.fixture
def index(tmp_path: Path) -> Any:
    with LakeIndex.create(tmp_path / "index", "id") as created:
        yield created


def test_a_folder_and_a_file_elsewhere(tmp_path: Path, index: LakeIndex) -> None:
    one, other = put(tmp_path / "lake" / "x.parquet", 1), put(tmp_path / "other" / "y.parquet", 2)
    hidden = put(tmp_path / "lake" / "sub" / "_q.parquet", 3)
    index.append([tmp_path / "lake", other, hidden])
    for each in (index, LakeIndex.open(tmp_path / "index")):
        assert [find_paths(each, value) for value in (1, 2, 3)] == [{one}, {other}, {hidden}]
    assert parquet_bloom.prune(None, "id = 2", index=index).selected == {other: [0]}


@pytest.mark.parametrize("order", [("", "_staging"), ("_staging", ""), ("", "_tmp/*.parquet"), (".hidden", "")])
def test_hidden_folders_below_a_root_are_roots_of_their_own(tmp_path: Path, index: LakeIndex, order: Any) -> None:
    lake = tmp_path / "lake"
    files = {1: put(lake / "a.parquet", 1), 2: put(lake / "_staging" / "b.parquet", 2)}
    files |= {3: put(lake / "_tmp" / "c.parquet", 3), 4: put(lake / ".hidden" / "d.parquet", 4)}
    for below in order:
        index.append(str(lake / below))
    values = [{"": 1, "_staging": 2, "_tmp/*.parquet": 3, ".hidden": 4}[below] for below in order]
    with LakeIndex.open(tmp_path / "index") as again:
        assert [find_paths(again, value) for value in values] == [{files[value]} for value in values]


def test_folders_below_a_root_are_listed_once(tmp_path: Path, index: LakeIndex) -> None:
    put(tmp_path / "lake" / "day=1" / "a.parquet", 1)
    put(tmp_path / "lake" / "day=2" / "a.parquet", 2)
    index.append(tmp_path / "lake" / "day=1")
    index.append(tmp_path / "lake")
    index.append(tmp_path / "lake" / "day=2")
    assert index.state.manifest.lake == {"paths": [str(tmp_path / "lake")]}


def test_a_folder_named_like_a_pattern(tmp_path: Path, index: LakeIndex) -> None:
    one, other = put(tmp_path / "la[k]e" / "x.parquet", 1), put(tmp_path / "lake" / "y.parquet", 2)
    index.append(tmp_path / "la[k]e")
    assert (find_paths(index, 1), find_paths(index, 2)) == ({one}, set())
    shutil.rmtree(tmp_path / "la[k]e")
    with pytest.raises(StorageError):
        index.refresh()
    with LakeIndex.open(tmp_path / "index", live=False) as again:
        again.remove(f"{tmp_path}/la[k]e/")
    with LakeIndex.open(tmp_path / "index") as again:
        assert (find_paths(again, 1), find_paths(again, 2), again.state.manifest.lake) == (set(), set(), {})
        again.append(other)
        assert find_paths(again, 2) == {other}


def test_renamed_columns_of_a_table(tmp_path: Path) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    from parquet_bloom.tables.iceberg.iceberg_table import iceberg_files

    catalog = catalogs.load_catalog("c", type="in-memory", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", pa.schema([pa.field("id", pa.int64()), pa.field("new_id", pa.int64())]))
    table.append(pa.table({"id": pa.array([1]), "new_id": pa.array([100])}))
    with LakeIndex.create(tmp_path / "index", "id") as index:
        index.append(iceberg_files(table))
        (path,) = find_paths(index, 1)
        assert find_paths(index, 100) == set()
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.delete_column("id")
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.rename_column("new_id", "id")
        with LakeIndex.open(tmp_path / "index", lake=iceberg_files(table)) as again:
            assert find_paths(again, 100) == {path}
            report = again.append(iceberg_files(table))
            assert report.unchanged == 0
            assert find_paths(again, 100) == {path}


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX")
def test_a_file_that_cannot_be_looked_at_is_not_gone(tmp_path: Path, index: LakeIndex) -> None:
    path = put(tmp_path / "lake" / "x.parquet", 1)
    index.append(path)
    os.rename(path, path + ".away")
    os.symlink(path, path)  # a link to itself cannot be followed
    index.refresh()
    assert find_paths(index, 5) == {path}
    index.compact()
    os.unlink(path)
    os.rename(path + ".away", path)
    index.refresh()
    assert find_paths(index, 1) == {path}


def test_a_store_that_refuses_does_not_make_files_gone(tmp_path: Path, s3: Any) -> None:
    path = put(tmp_path / "x.parquet", 1)
    s3.put("x.parquet", Path(path).read_bytes())
    options = {"storage_options": s3.storage_options}
    with LakeIndex.create(s3.url("index"), "id", **options) as index:
        index.append(s3.url("x.parquet"))
    refused: dict[str, Any] = {"when": lambda request: request.key.endswith("x.parquet")}
    fault = s3.fail("GetObject", status=403, code="AccessDenied", times=1000, **refused)
    with LakeIndex.open(s3.url("index"), **options) as index:
        assert find_paths(index, 1) == {s3.url("x.parquet")}
        index.compact()
        fault.times = 0
        index.refresh()
        assert find_paths(index, 1) == {s3.url("x.parquet")}


def test_literals_finer_than_microseconds(tmp_path: Path) -> None:
    nanos = 1704164645678901234
    table = pa.table({"at": pa.array([nanos], pa.timestamp("ns")), "of_day": pa.array([123456789], pa.time64("ns"))})
    path = tmp_path / "lake" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(table, path)
    with LakeIndex.create(tmp_path / "index", ["at", "of_day"]) as index:
        index.append(path)
        for values in (
            pa.array([nanos], pa.timestamp("ns")),
            np.array([nanos], "datetime64[ns]"),
            [np.datetime64(nanos, "ns")],
            [pa.scalar(nanos, pa.timestamp("ns"))],
        ):
            (answer,) = index.lookup("at", values)
            assert [candidate.path for candidate in answer] == [str(path)]
        assert index.lookup("at", pa.array([nanos + 1], pa.timestamp("ns"))) == [[]]
        assert len(index.lookup("of_day", pa.array([123456789], pa.time64("ns")))[0]) == 1
        assert index.lookup("at", [dt.datetime(2020, 1, 1)]) == [[]]


def test_another_file_with_the_same_times(tmp_path: Path, index: LakeIndex) -> None:
    path, other = put(tmp_path / "lake" / "v" / "a.parquet", 1), put(tmp_path / "v2" / "a.parquet", 2)
    index.append(tmp_path / "lake")
    os.rename(tmp_path / "lake" / "v", tmp_path / "old")
    os.rename(tmp_path / "v2", tmp_path / "lake" / "v")
    times = os.stat(tmp_path / "old" / "a.parquet")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    index.refresh()
    assert find_paths(index, 2) == {path}
    assert not os.path.exists(other)


def test_another_file_of_which_nothing_tells_that_it_is_one(tmp_path: Path) -> None:
    """A file system that gives neither etags nor reliable times: only the contents show a change."""
    lake = fsspec.filesystem("memory")
    folder = f"/lake-{tmp_path.name}"
    for value in (1, 2):
        local = put(tmp_path / f"{value}.parquet", value)
        lake.put(local, f"{folder}/{value}.parquet")
    assert lake.size(f"{folder}/1.parquet") == lake.size(f"{folder}/2.parquet")
    with LakeIndex.create(tmp_path / "index", "id", lake_filesystem=lake) as index:
        index.append(f"{folder}/1.parquet")
        assert len(find_paths(index, 1)) == 1
        assert not find_paths(index, 2)
        lake.copy(f"{folder}/2.parquet", f"{folder}/1.parquet")
        index.refresh()
        assert len(find_paths(index, 2)) == 1
    lake.rm(folder, recursive=True)


def test_compaction_looks_again(tmp_path: Path, index: LakeIndex) -> None:
    path = put(tmp_path / "y.parquet", 1)
    index.append(path)
    os.rename(path, path + ".away")
    index.refresh()
    os.rename(path + ".away", path)
    with LakeIndex.open(tmp_path / "index") as other:
        other.append(path)
    index.compact()
    assert find_paths(index, 1) == {path}


def test_an_append_beyond_the_lake_that_was_given(tmp_path: Path, index: LakeIndex) -> None:
    one, other = put(tmp_path / "a" / "x.parquet", 1), put(tmp_path / "b" / "y.parquet", 2)
    with LakeIndex.open(tmp_path / "index", lake=tmp_path / "a") as opened:
        opened.append()
        opened.append(tmp_path / "b")
        assert find_paths(opened, 2) >= {other}
        assert find_paths(opened, 1) >= {one}
    third = put(tmp_path / "c" / "z.parquet", 3)
    with LakeIndex.open(tmp_path / "index", lake=[one, third]) as opened:
        assert find_paths(opened, 3) == {one, third}  # neither is indexed
        fourth = put(tmp_path / "d" / "z.parquet", 4)
        opened.append(tmp_path / "d")
        assert find_paths(opened, 3) == {one, third}
        assert find_paths(opened, 4) == {one, third, fourth}


def test_a_parent_path_after_a_link(tmp_path: Path, index: LakeIndex) -> None:
    (tmp_path / "far" / "inner").mkdir(parents=True)
    path = put(tmp_path / "far" / "y.parquet", 1)
    os.symlink(tmp_path / "far" / "inner", tmp_path / "link")
    index.append(f"{tmp_path}/link/../y.parquet")
    index.refresh()
    assert find_paths(index, 1) == {os.path.realpath(path)}


def test_values_at_hand_of_a_file_in_the_lake(tmp_path: Path, index: LakeIndex) -> None:
    path = put(tmp_path / "lake" / "x.parquet", 1)
    other = put(tmp_path / "lake" / "y.parquet", 2)
    index.append(tmp_path / "lake")
    index.append_batches([(path, {"id": pa.array([1])}), (Path("elsewhere"), {"id": pa.array([5])})])
    assert [candidate.path for candidate in index.lookup("id", [1])[0]] == [path]
    assert find_paths(index, 5) == {"elsewhere"}
    assert find_paths(index, 2) == {other}


def test_an_index_inside_of_its_lake(tmp_path: Path) -> None:
    put(tmp_path / "lake" / "x.parquet", 1)
    with pytest.raises(ParquetBloomError, match="it lies inside of its lake"):
        LakeIndex.create(tmp_path / "lake" / "index", "id", lake=tmp_path / "lake")
    with LakeIndex.create(tmp_path / "lake" / "_index", "id", lake=tmp_path / "lake") as index:
        assert index.append().added == 1


def test_changed_files_that_were_named(tmp_path: Path, index: LakeIndex) -> None:
    path = put(tmp_path / "x.parquet", 1)
    index.append(path)
    put(tmp_path / "x.parquet", 2)
    assert index.append().replaced == 1
    assert (find_paths(index, 1), find_paths(index, 2)) == (set(), {path})


@pytest.mark.parametrize(
    "values", [[[5]], [{5}], np.zeros((2, 2)), np.array(5), [object()], {"a": 1}, 5, "five", [np.timedelta64(1, "Y")]]
)
def test_invalid_lists_of_literals(tmp_path: Path, index: LakeIndex, values: Any) -> None:
    with pytest.raises(ParquetBloomError):
        index.lookup("id", values)


def test_odd_literals(tmp_path: Path, index: LakeIndex) -> None:
    path = put(tmp_path / "x.parquet", 1)
    index.append(path)
    assert find_paths(index, np.int64(1)) == {path}
    assert find_paths(index, np.int64(2)) == set()
    with suppress(ParquetBloomError):
        assert find_paths(index, Decimal("sNaN")) == {path}


@pytest.mark.parametrize(
    "call",
    [
        lambda index: index.append(threads=-3),
        lambda index: index.append(5),
        lambda index: index.append(memory_limit=-1),
        lambda index: index.remove(5),
        lambda index: index.remove([None]),
        lambda index: index.check(-1),
        lambda index: LakeIndex.create(index.path + "2", 5),
        lambda index: LakeIndex.create(index.path + "2", "id", remainder_bits=1.5),
        lambda index: LakeIndex.create(index.path + "2", "id", expected_values="x"),
        lambda index: LakeIndex.create(index.path + "2", "id", lake={"foo": 5}),
    ],
)
def test_odd_arguments(index: LakeIndex, call: Any) -> None:
    with pytest.raises(ParquetBloomError):
        call(index)


# ------------------------------------------------------------------ words that no writer writes, checksums that fit


@pytest.fixture
def index_of_one_file(tmp_path: Path) -> Path:
    with LakeIndex.create(tmp_path / "index", "id", granularity="row_group", expected_values=10) as index:
        index.append(put(tmp_path / "lake" / "a.parquet", 1, 2, 3))
    return tmp_path / "index"


NESTED = "[" * 100_000 + "]" * 100_000


@pytest.mark.ci
@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("columns", 0), None),
        (("columns",), "id"),
        (("layout",), ["postings"]),
        (("granularity",), "row"),
        (("settings", "prefix_bits"), "12"),
        (("settings", "prefix_bits"), 0),
        (("lake",), {"paths": [3]}),
        (("lake",), {"folder": "x"}),
        (("snapshot",), []),
        (("segments",), {}),
        (("segments", 0, "num_units"), -1),
        (("segments", 0, "num_files"), 1 << 62),
        (("segments", 0, "files"), 7),
        (("segments", 0, "name"), "\ud800"),
        (("segments", 0, "removed"), "OjAAAAEAAAAAAAAAEAAAAAcA"),  # file 7
        (("segments", 0, "removed"), "AAAA"),
        (("segments", 0, "parts", 0, "column"), "other"),
        (("segments", 0, "parts", 0, "type", "length"), [8]),
        (("segments", 0, "parts", 0, "type", "bits"), 24),
        (("segments", 0, "parts", 0, "type", "unit"), "us"),
        (("segments", 0, "parts", 0, "type", "signed"), 1),
        (("segments", 0, "parts", 0, "holds"), "all"),
        (("segments", 0, "parts", 0, "slices", 0, "num_bytes"), 0.5),
        (("segments", 0, "parts", 0, "slices", 0, "last"), 1 << 80),
        (("segments", 0, "parts", 0, "slices", 0, "first"), "BIG"),
        (("snapshot",), "NESTED"),
    ],
)
def test_manifest_that_no_writer_wrote(index_of_one_file: Path, where: tuple[Any, ...], value: Any):
    path, document = read_manifest(index_of_one_file)
    inner = document
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    text = json.dumps(document).replace('"NESTED"', NESTED).replace('"BIG"', "1" + "0" * 5000)
    seal_manifest(path, text.encode())
    with pytest.raises(BrokenIndexError):
        LakeIndex.open(index_of_one_file)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("path", [None]),
        ("part id", [-2]),  # said to be in no part, and not to be covered by none
        ("part id", [1]),
        ("part id", None),
        ("first_unit", [1]),  # a unit of no file
        ("first_unit", [None]),
        ("size", ["x"]),
        ("listed", [None]),
    ],
)
def test_table_of_files_that_no_writer_wrote(index_of_one_file: Path, column: str, values: list[Any] | None):
    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(column)
        if values is None:
            return table.remove_column(at)
        kind = pa.string() if isinstance(values[0], str) else table.schema.field(at).type
        return table.set_column(at, column, pa.array(values, kind))

    change_file_tables(index_of_one_file, change)
    with pytest.raises(BrokenIndexError):
        LakeIndex.open(index_of_one_file)


@pytest.mark.parametrize("damage", [slice(9, 60), slice(-40, -20), slice(200, 260)])
def test_table_of_files_that_arrow_cannot_read(index_of_one_file: Path, damage: slice):
    (path,) = index_of_one_file.glob("*.files")
    body = bytearray(path.read_bytes()[:-8])
    body[damage] = b"\xff" * len(body[damage])
    path.write_bytes(bytes(body) + hash_one(bytes(body)).to_bytes(8, "little"))
    with suppress(BrokenIndexError), LakeIndex.open(index_of_one_file) as index:
        index.lookup("id", [2])


def test_a_part_whose_footer_is_nested_or_not_a_number(index_of_one_file: Path):
    (path,) = index_of_one_file.glob("*.postings")
    good = path.read_bytes()
    length = int.from_bytes(good[-20:-16], "little")
    start = len(good) - 20 - length
    document = json.loads(good[start:-20])
    for text in ('{"kind": ' + NESTED + "}", json.dumps(document | {"sections": {"blocks": [0.5, 1, None]}})):
        footer = text.encode()
        tail = len(footer).to_bytes(4, "little") + hash_one(footer).to_bytes(8, "little") + b"PBLAKE01"
        path.write_bytes(good[:start] + footer + tail)
        with LakeIndex.open(index_of_one_file) as index:
            answers = index.lookup("id", [2])
            assert len(answers[0]) == 1
            assert answers.doubts


def test_types_come_back_from_json_as_they_were():
    types = [pa.int8(), pa.uint64(), pa.string(), pa.binary(), pa.binary(5), pa.date32(), pa.time32("ms")]
    types += [pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.decimal128(9, 2), pa.float16(), pa.float64(), pa.uuid()]
    for arrow_type in [*types, pa.bool_(), pa.null()]:
        column_type = type_from_json(json.loads(json.dumps(type_to_json(from_arrow(arrow_type)))))
        assert (column_type, column_type.name) == (from_arrow(arrow_type), from_arrow(arrow_type).name)


def test_what_an_iceberg_table_calls_its_folders_is_no_value(tmp_path: Path):
    """They are called `p=a+b` for "a b", and `p=null` for NULL: rows were lost by the folders' columns."""
    catalogs = pytest.importorskip("pyiceberg.catalog")
    from parquet_bloom.tables.iceberg.iceberg_table import iceberg_files

    values = ["a b", "a+b", None, "null", "x%41", "", "__HIVE_DEFAULT_PARTITION__"]
    days = [dt.date(2026, 1, 1 + number) for number in range(len(values))]
    rows = pa.table({"id": pa.array(range(len(values)), pa.int64()), "p": values, "day": days})
    catalog = catalogs.load_catalog("c", type="in-memory", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", rows.schema)
    with table.update_spec() as update:
        update.add_identity("day")
        update.add_identity("p")
    table = catalog.load_table("n.t")
    table.append(rows)
    table_files = iceberg_files(table)
    with LakeIndex.create(tmp_path / "index", ["id"]) as index:
        index.append(table_files)
    with LakeIndex.open(tmp_path / "index", lake=table_files) as index:
        for number, value in enumerate(values):
            where = "p IS NULL" if value is None else f"p = '{value}'"
            assert parquet_bloom.read_table(None, where, index=index).to_pylist() == rows.slice(number, 1).to_pylist()
            assert parquet_bloom.dataset(None, index=index).scan(where).row_ranges() != {}
        # The metadata rules files out unopened.
        report = parquet_bloom.prune(None, f"day = '{days[3]}'", index=index)
        assert report.unopened_files == len(values) - 1
        assert sorted(parquet_bloom.read_table(None, "id < 99", index=index)["p"].to_pylist(), key=str) == sorted(
            values, key=str
        )
        polars = pytest.importorskip("polars")
        scanned = parquet_bloom.scan_polars(None, index=index).filter(polars.col("p") == "a b").collect()
        assert scanned["id"].to_list() == [0]


@pytest.mark.parametrize("location", ["/", "{}", "file://{}/private/n/t", "{}/given"])
def test_an_iceberg_table_s_own_folder_is_where_it_was_opened(tmp_path: Path, location: str):
    """Its metadata could say that it is in `/`, which all files are inside of, and name lists of files anywhere."""
    catalogs = pytest.importorskip("pyiceberg.catalog")
    from parquet_bloom.tables.iceberg.iceberg_table import iceberg_files

    catalog = catalogs.load_catalog("c", type="in-memory", warehouse=str(tmp_path / "private"))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", pa.schema([pa.field("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    document = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    assert len(iceberg_files(table.metadata_location).files) == 1
    (tmp_path / "given" / "metadata").mkdir(parents=True)
    metadata = tmp_path / "given" / "metadata" / "v1.metadata.json"
    metadata.write_text(json.dumps(document | {"location": location.format(tmp_path)}))
    (metadata.parent / "version-hint.text").write_text("1")
    for given in (metadata, metadata.as_uri(), metadata.parent.parent):
        with pytest.raises(ParquetBloomError, match=r"another folder|avro is outside of the table's folder"):
            iceberg_files(given)
    assert len(iceberg_files(metadata, outside=True).files) == 1
    (tmp_path / "link").symlink_to(tmp_path / "private" / "n" / "t")
    name = os.path.basename(table.metadata_location)
    assert len(iceberg_files(tmp_path / "link" / "metadata" / name).files) == 1


def test_predicates_on_many_columns(tmp_path: Path) -> None:
    """Files that have a column in different types are told apart, however many columns a predicate has.

    62 columns and a second type of one are 63 parts: numbers to the base 64 of 11 more columns fill 64 bits.
    """
    names = [f"c{number:02}" for number in range(62)]
    lake = tmp_path / "lake"
    lake.mkdir()
    for name, first_type, value in (("a", pa.int64(), 7), ("b", pa.int32(), 5)):
        columns = [pa.array([value], first_type), *(pa.array([1]) for _ in names[1:])]
        pq.write_table(pa.table(columns, names=names), lake / f"{name}.parquet")
    with LakeIndex.create(tmp_path / "index", names, lake=lake, expected_values=1000) as index:
        index.append()
        (segment,) = index.state.segments
        assert len(segment.parts) == 63
        for count in (2, 12, len(names)):
            where = " AND ".join(["c00 = 5", *(f"{name} = 1" for name in names[1:count])])
            assert dict(parquet_bloom.prune(lake, where, index=index).selected) == {str(lake / "b.parquet"): [0]}

"""What is taken as a table, and what is refused: folders at URLs, metadata files, names that mean two columns."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import parquet_bloom
import parquet_bloom.zones
from parquet_bloom.errors import ManagedTableError, ParquetBloomError, PredicateError, StorageError
from parquet_bloom.lake import LakeIndex

deltalake = pytest.importorskip("deltalake")


@pytest.fixture
def iceberg(tmp_path: Path):
    """An Iceberg table of two snapshots with a deleted file; and the path of its metadata."""
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    (tmp_path / "warehouse").mkdir()
    catalog = catalogs.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": range(10)}))
    table.overwrite(pa.table({"id": range(5)}))
    return table


def test_the_path_of_a_metadata_file_is_that_table(iceberg, tmp_path):
    url = iceberg.metadata_location
    path = url.removeprefix("file://")
    for given in (path, Path(path), url):
        assert parquet_bloom.dataset(given).count_rows() == 5
        assert len(parquet_bloom.prune(given, "id = 7").files) == 1
        assert parquet_bloom.read_table(given, "id > 2")["id"].to_pylist() == [3, 4]
    with pytest.raises(StorageError, match="there is no such file"):
        parquet_bloom.dataset(str(tmp_path / "v1.metadata.json"))
    for given in (str(Path(path).parent / "*.metadata.json"), str(Path(path).parent)):
        with pytest.raises(ManagedTableError, match=r"give the table itself \(parquet_bloom"):
            parquet_bloom.dataset(given)
    compressed = tmp_path / "v1.metadata.json.gz"
    compressed.write_bytes(b"\x1f\x8b")
    with pytest.raises(ParquetBloomError, match=r"json\.gz: cannot read the Iceberg table: it is cut short"):
        parquet_bloom.dataset(compressed)


def test_settings_and_ids_of_iceberg_tables(iceberg):
    path = iceberg.metadata_location.removeprefix("file://")
    first = iceberg.snapshots()[0].snapshot_id
    assert parquet_bloom.dataset(parquet_bloom.iceberg(path, snapshot_id=np.int64(first))).count_rows() == 10
    for wrong in (True, np.True_, 1.0, "1"):
        with pytest.raises(ParquetBloomError, match="a snapshot id is a number, not"):
            parquet_bloom.iceberg(path, snapshot_id=wrong)
    for given in ({"table": path}, {"table": "db.events", "catalog": "c"}):
        with pytest.raises(ParquetBloomError, match="properties must be a mapping, not int"):
            parquet_bloom.iceberg(**given, properties=5)
    future = parquet_bloom.iceberg(iceberg, as_of="2999-01-01")
    assert len(future.read_snapshot().files) == 1
    iceberg.append(pa.table({"id": [7]}))
    assert parquet_bloom.dataset(future).count_rows() == 6


def test_options_that_are_none(tmp_path):
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": range(3)}))
    for call in (parquet_bloom.dataset, lambda table, **options: parquet_bloom.embed_table(table, ["id"], **options)):
        for table in (tmp_path / "t", deltalake.DeltaTable(tmp_path / "t")):
            with pytest.raises(ParquetBloomError, match="storage_options must be a mapping, not int"):
                call(table, storage_options=5)


def test_the_url_of_a_table_s_folder_is_never_read_as_files(s3):
    options = s3.storage_options | {"allow_http": "true"}
    url = s3.url("lake/events")
    for rows in (range(3), range(5)):
        deltalake.write_deltalake(url, pa.table({"id": rows}), mode="overwrite", storage_options=options)
    s3.put("lake/iceberg/metadata/v1.metadata.json", b"{}")
    s3.put("lake/iceberg/data/a.parquet", b"PAR1")
    assert parquet_bloom.dataset(parquet_bloom.delta(url, storage_options=options)).count_rows() == 5
    for path in ("lake/events", "lake/events/", "lake", "lake/events/*.parquet", "lake/ev*", "lake/iceberg/data"):
        for given in (s3.url(path), [s3.url(path)]):
            with pytest.raises(ManagedTableError, match=r"give the table itself \(parquet_bloom"):
                parquet_bloom.dataset(given, storage_options=options)


def test_a_name_with_a_dot_that_is_also_a_field(tmp_path):
    rows = pa.table({"x.y": range(10), "x": [{"y": 100 + i} for i in range(10)], "z": range(10)})
    deltalake.write_deltalake(tmp_path / "t", rows)
    dataset = parquet_bloom.dataset(tmp_path / "t")
    for where in ('"x"."y" = 3', '"x.y" = 3', "x.y = 103", "z = 3 AND x.y = 3"):
        with pytest.raises(PredicateError, match=r"column 'x\.y': the table has a column of this name, with the"):
            parquet_bloom.read_table(tmp_path / "t", where)
        with pytest.raises(PredicateError, match="a field of a struct"):
            dataset.scan(where).to_arrow()
    assert dataset.scan("z = 3").to_arrow().to_pylist() == [{"x.y": 3, "x": {"y": 103}, "z": 3}]
    # Engines resolve names themselves.
    for filter in (pc.field("x.y") == 3, pc.field("x", "y") == 103):
        assert dataset.to_table(filter=filter)["z"].to_pylist() == [3]


def test_zones_of_a_table_are_those_of_its_live_files(tmp_path):
    for rows in (range(3), range(10)):
        deltalake.write_deltalake(tmp_path / "t", pa.table({"id": rows}), mode="overwrite")
    given = (tmp_path / "t", parquet_bloom.delta(tmp_path / "t"), deltalake.DeltaTable(tmp_path / "t"), tmp_path)
    for table in given:
        with pytest.raises(ManagedTableError, match=r"give the list of its live files, parquet_bloom\.dataset"):
            parquet_bloom.zones.build(table, "id", tmp_path / "z.parquet")
    files = parquet_bloom.dataset(tmp_path / "t").files
    assert parquet_bloom.zones.build(files, "id", tmp_path.parent / "z.parquet").files == 1
    found = parquet_bloom.read_table(tmp_path / "t", "id = 7", zones=tmp_path.parent / "z.parquet")
    assert found.to_pylist() == [{"id": 7}]


@pytest.mark.parametrize("live", [True, False])
def test_a_dataset_with_an_open_index_pickles(live, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    deltalake.write_deltalake("t", pa.table({"id": range(10)}))
    LakeIndex.create("ids.index", "id", lake=tmp_path / "t").append()
    index = LakeIndex.open("ids.index", live=live)
    datasets = [parquet_bloom.dataset("t", index=index), parquet_bloom.dataset(index)]
    deltalake.write_deltalake("t", pa.table({"id": range(10, 20)}), mode="append")
    data = pickle.dumps([index, *datasets])
    monkeypatch.chdir("/")
    copy, *again = pickle.loads(data)
    assert (copy.live, copy.columns, len(copy.unindexed)) == (live, ("id",), int(live))
    assert [dataset.scan("id IN (7, 17)").count_rows() for dataset in again[1:]] == [2]
    copy.close()
    index.close()

"""An index over a table whose columns are called otherwise in its files, or have been renamed since it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers.delta_log import add, beginning, column, commit

import parquet_bloom
from parquet_bloom import LakeIndex
from parquet_bloom.errors import ParquetBloomError

FILES = 3
_INT64 = pa.int64()


pytestmark = pytest.mark.usefixtures("settled_tokens")


def rows(number: int, names: tuple[str, str], arrow_type: pa.DataType) -> pa.Table:
    """The rows of a file: values below 1,000 in one column, above in the other; no bounds tell files apart."""
    some = range(number, 100 + number, 10)
    if pa.types.is_string(arrow_type):
        return pa.table({name: [f"Word {i:05}." for i in own] for name, own in _pair(names, some)})
    return pa.table({name: pa.array(own, arrow_type) for name, own in _pair(names, some)})


def _pair(names: tuple[str, str], some: range) -> Iterator[tuple[str, list[int]]]:
    return zip(names, ([*some], [1000 + i for i in some]), strict=True)


class DeltaTable:
    """A Delta table with a column mapping, written by hand."""

    def __init__(self, root: Path, mode: str, arrow_type: pa.DataType):
        pytest.importorskip("deltalake")
        self.root, self._mode, self._version, self._type = root, mode, 0, arrow_type
        self._commit({"low": 1, "high": 2}, [self._write(number) for number in range(FILES)])

    def _write(self, number: int) -> dict[str, Any]:
        fields = [pa.field(f"c-{i}", self._type, metadata={"PARQUET:field_id": str(i)}) for i in (1, 2)]
        self.root.mkdir(exist_ok=True)
        pq.write_table(
            rows(number, ("c-1", "c-2"), self._type).cast(pa.schema(fields)),
            self.root / f"{number}.parquet",
            use_dictionary=False,
        )
        return add(f"{number}.parquet", (self.root / f"{number}.parquet").stat().st_size)

    def _commit(self, numbers: dict[str, int], adds: Any = ()) -> None:
        kind = "string" if pa.types.is_string(self._type) else "long"
        fields = [column(name, kind, number) for name, number in numbers.items()]
        mode = {"delta.columnMapping.mode": self._mode, "delta.columnMapping.maxColumnId": "9"}
        commit(self.root, self._version, [*beginning(fields, configuration=mode, features=["columnMapping"]), *adds])
        self._version += 1

    def swap(self) -> None:
        self._commit({"high": 1, "low": 2})

    def replace(self) -> None:
        """Drop a column, and add another of its name."""
        self._commit({"low": 3, "high": 2})

    def rename(self) -> None:
        self._commit({"below": 1, "high": 2})

    def append(self) -> None:
        self._commit({"below": 1, "high": 2}, [self._write(FILES)])

    @property
    def table(self) -> Any:
        return parquet_bloom.delta(self.root)


class IcebergTable:
    """An Iceberg table of a catalog."""

    def __init__(self, root: Path, name: str = "c", arrow_type: pa.DataType = _INT64):
        memory = pytest.importorskip("pyiceberg.catalog.memory")
        catalog = memory.InMemoryCatalog(name, warehouse=str(root))
        catalog.create_namespace("n")
        self._type = arrow_type
        self.table = catalog.create_table("n.t", rows(0, ("low", "high"), arrow_type).schema)
        for number in range(FILES):
            self.table.append(rows(number, ("low", "high"), arrow_type))

    def _rename(self, *pairs: tuple[str, str]) -> None:
        for old, new in pairs:
            with self.table.update_schema() as update:
                update.rename_column(old, new)

    def swap(self) -> None:
        self._rename(("low", "other"), ("high", "low"), ("other", "high"))

    def replace(self) -> None:
        from pyiceberg.types import LongType, StringType

        with self.table.update_schema() as update:
            update.delete_column("low")
        with self.table.update_schema() as update:
            update.add_column("low", StringType() if pa.types.is_string(self._type) else LongType())

    def rename(self) -> None:
        self._rename(("low", "below"))

    def append(self) -> None:
        self.table.append(rows(FILES, ("below", "high"), self._type))


_TABLES = ["delta name", "delta id", "iceberg"]


def make_table(param: str, root: Path, arrow_type: pa.DataType = _INT64) -> Any:
    kind, _, mode = param.partition(" ")
    return DeltaTable(root, mode, arrow_type) if kind == "delta" else IcebergTable(root, arrow_type=arrow_type)


@pytest.fixture(params=_TABLES)
def table(request: Any, tmp_path: Path) -> Any:
    return make_table(request.param, tmp_path / "t")


def read(table: Any, where: str, index: Any) -> tuple[int, int]:
    """The number of rows, and of files that the index ruled out."""
    scan = parquet_bloom.dataset(table.table, index=index).scan(where)
    count = scan.to_arrow().num_rows
    assert count == parquet_bloom.dataset(table.table).scan(where).count_rows()
    return count, scan.plan().unopened_by.get("index", 0)


Make = Callable[[], LakeIndex]


@pytest.fixture
def make(table: Any, tmp_path: Path) -> Make:
    def make() -> LakeIndex:
        index = LakeIndex.create(tmp_path / "index", ["low", "high"], lake=table.table)
        assert index.append().added == FILES
        return index

    return make


@pytest.mark.ci
def test_mapped_columns_are_indexed_and_found(table: Any, make: Make, tmp_path: Path) -> None:
    with make() as index:
        assert [len(found) for found in index.lookup("low", [20, 31, 1020])] == [1, 1, 0]
        assert [len(found) for found in index.lookup("high", [1020, 20])] == [1, 0]
        assert index.check(sample=FILES).problems == []
        for used in (index, tmp_path / "index"):
            assert read(table, "low IN (20, 55)", used) == (1, FILES - 1)
            assert read(table, "low = 20 AND high = 1031", used)[0] == 0
        assert not index.append().added
    with LakeIndex.open(tmp_path / "index", lake=table.table) as index:
        assert index.unindexed == []
        assert index.stats().unindexed == 0


def test_columns_that_have_swapped_names(table: Any, make: Make, tmp_path: Path) -> None:
    """What the index says of the other column would rule out every file that has a matching row."""
    with make() as index:
        assert [len(found) for found in index.lookup("low", [1020])] == [0]
        table.swap()
        for used in (index, tmp_path / "index"):
            assert read(table, "low = 1020", used)[0] == 1
            assert read(table, "high = 20", used)[0] == 1
        index.refresh()
        assert [len(found) for found in index.lookup("low", [1020])] == [FILES]
        assert index.append().replaced == FILES
        assert [len(found) for found in index.lookup("low", [1020, 20])] == [1, 0]
        assert read(table, "low IN (1020, 1055)", index) == (1, FILES - 1)


def test_a_column_in_place_of_a_dropped_one(table: Any, make: Make) -> None:
    with make() as index:
        table.replace()
        assert read(table, "low = 20", index) == (0, 0)
        assert read(table, "low IS NULL", index)[0] == 10 * FILES
        index.refresh()
        assert [len(found) for found in index.lookup("low", [20])] == [FILES]


def test_a_renamed_column_is_found_in_old_and_new_files(table: Any, tmp_path: Path) -> None:
    table.rename()
    table.append()
    with LakeIndex.create(tmp_path / "index", "below", granularity="row_group", lake=table.table) as index:
        assert index.append().added == FILES + 1
        assert [len(found) for found in index.lookup("below", [20, 53, 55])] == [1, 1, 0]
        assert read(table, "below IN (20, 53, 55)", index) == (2, FILES - 1)


@pytest.mark.ci
@pytest.mark.parametrize("param", _TABLES)
@pytest.mark.parametrize("key", ["grams({})", "grams(lower({}))"])
def test_grams_of_columns_that_are_renamed_and_exchanged(param: str, key: str, tmp_path: Path) -> None:
    table = make_table(param, tmp_path / "t", pa.string())
    keys = [key.format(name) for name in ("low", "high")]
    subject = key.removeprefix("grams(").removesuffix(")")
    low, high, word = subject.format("low"), subject.format("high"), "word" if "lower" in key else "Word"
    with LakeIndex.create(tmp_path / "index", keys, granularity="row_group", lake=table.table) as index:
        assert index.append().added == FILES
        assert index.check(sample=FILES).problems == []
        for used in (index, tmp_path / "index"):
            assert read(table, f"{low} LIKE '{word} 00020%'", used) == (1, FILES - 1)
            assert read(table, f"contains({high}, ' 01020.') OR {low} LIKE '% 00041_'", used) == (2, 1)
            assert read(table, f"{low} LIKE '% 01020%'", used) == (0, FILES)
        table.swap()
        for used in (index, tmp_path / "index"):
            assert read(table, f"{low} LIKE '% 01020.'", used)[0] == 1
            assert read(table, f"{high} LIKE '% 00020.'", used)[0] == 1
        index.refresh()
        assert index.append().replaced == FILES
        assert read(table, f"{low} LIKE '% 01020.'", index) == (1, FILES - 1)
        assert not index.append().added
    table = make_table(param, tmp_path / "u", pa.string())
    table.rename()
    table.append()
    below, key = subject.format("below"), key.format("below")
    with LakeIndex.create(tmp_path / "other", key, lake=table.table) as index:
        assert index.append().added == FILES + 1
        assert read(table, f"{below} LIKE '% 00020.' OR {below} LIKE '% 00053.'", index) == (2, FILES - 1)
    table = make_table(param, tmp_path / "v", pa.string())
    with LakeIndex.create(tmp_path / "third", key.replace("below", "low"), lake=table.table) as index:
        index.append()
        table.replace()
        assert read(table, f"{low} LIKE '% 00020.'", index) == (0, 0)
        assert read(table, "low IS NULL", index)[0] == 10 * FILES


def test_an_index_of_files_is_not_believed_of_a_table_with_other_names(table: Any, tmp_path: Path) -> None:
    """Its `low` is what the files call so; of a table with field ids nobody knows what that is."""
    files = [file.path for file in find_snapshot(table).files]
    names = ["c-1", "c-2"] if isinstance(table, DeltaTable) else ["low", "high"]
    with LakeIndex.create(tmp_path / "index", names) as index:
        index.append(files)
        table.swap()
        for where in ("low = 1020", "high = 20"):
            assert read(table, where, index) == (1, 0)


def find_snapshot(table: Any) -> Any:
    source = table.table if hasattr(table.table, "read_snapshot") else parquet_bloom.iceberg(table.table)
    return source.read_snapshot()


def test_fields_of_structs_and_lists(tmp_path: Path) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    catalog = catalogs.load_catalog("c", type="in-memory", warehouse=str(tmp_path / "t"))
    catalog.create_namespace("n")
    nested = pa.table({"s": [{"x": 1, "y": 100}, {"x": 2, "y": 200}], "l": [[1, 2], [3]], "m": [{"k": 5}, {"k": 6}]})
    table = catalog.create_table("n.t", nested.schema)
    table.append(nested)
    with table.update_schema() as update:
        update.rename_column("s.x", "z")
        update.rename_column("l", "list")
        update.rename_column("m.k", "key")
    columns = ["s.z", "s.y", "list", "m"]
    with LakeIndex.create(tmp_path / "index", columns, lake=table) as index:
        assert index.append().uncovered == {}
        for name, value in (("s.z", 2), ("s.y", 100), ("list", 3), ("m", 6)):
            assert [len(found) for found in index.lookup(name, [value, 77])] == [1, 0]
        assert parquet_bloom.prune(table, "s.z = 77", index=index).unopened_files == 1
        assert parquet_bloom.read_table(table, "s.z = 2", index=index).num_rows == 1
    with (
        LakeIndex.create(tmp_path / "other", ["s", "s.y"], lake=table) as index,
        pytest.raises(ParquetBloomError, match="column 's'"),
    ):
        index.append()


def test_a_table_of_a_catalog_is_opened_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    config = pytest.importorskip("pyiceberg.utils.config")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", config.Config())
    catalog = catalogs.load_catalog("prod")
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": range(10)}))
    given = parquet_bloom.iceberg("db.events", catalog="prod", properties={"s3.secret-access-key": "a secret"})
    with LakeIndex.create(tmp_path / "index", "id", lake=given) as index:
        assert index.state.manifest.lake == {"iceberg": "db.events", "catalog": "prod"}
        assert index.append().added == 1
    assert b"a secret" not in b"".join(path.read_bytes() for path in (tmp_path / "index").iterdir())
    table.append(pa.table({"id": range(10, 20)}))
    with LakeIndex.open(tmp_path / "index") as index:
        assert len(index.unindexed) == 1
        assert index.append().added == 1
        # The same table, given otherwise.
        assert index.append(table).unchanged == 2
        assert index.state.manifest.lake == {"iceberg": "db.events", "catalog": "prod"}
        assert index.append({"iceberg": table.location()}).unchanged == 2
    assert parquet_bloom.read_table(None, "id = 15", index=tmp_path / "index").num_rows == 1


def test_a_table_of_a_catalog_that_nothing_names(tmp_path: Path) -> None:
    table = IcebergTable(tmp_path / "t")
    with LakeIndex.create(tmp_path / "index", "low", lake=table.table) as index:
        assert index.append().added == FILES
        table.rename()
        index.refresh()
    with pytest.raises(ParquetBloomError, match=r"give the table to LakeIndex.open, as lake=") as caught:
        LakeIndex.open(tmp_path / "index")
    assert "\n" not in str(caught.value)
    with LakeIndex.open(tmp_path / "index", live=False) as index:
        assert index.append(table.table).unchanged == FILES
    nameless = IcebergTable(tmp_path / "u", "")
    with LakeIndex.create(tmp_path / "other", "low", lake=nameless.table) as index:
        assert index.append().added == FILES
        assert index.state.manifest.lake == {"iceberg": "n.t", "catalog": ""}
    with pytest.raises(ParquetBloomError, match=r"n\.t: its catalog has no name"):
        LakeIndex.open(tmp_path / "other")
    with LakeIndex.open(tmp_path / "other", lake=nameless.table) as index:
        assert index.append().unchanged == FILES


def test_a_table_of_a_catalog_by_its_folder(tmp_path: Path) -> None:
    table = IcebergTable(tmp_path / "t")
    folder = table.table.location()
    for lake in (folder.removeprefix("file://"), folder, {"iceberg": folder}):
        path = tmp_path / f"index {len(list(tmp_path.iterdir()))}"
        with LakeIndex.create(path, "low", lake=lake) as index:
            assert index.append().added == FILES
            assert index.state.manifest.lake == {"iceberg": folder.removeprefix("file://")}
        with LakeIndex.open(path) as index:
            assert index.append().unchanged == FILES


def test_an_index_that_cannot_be_created_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = IcebergTable(tmp_path / "t")

    def fail(*arguments: Any, **options: Any) -> Any:
        raise ParquetBloomError("it fails now")

    with monkeypatch.context() as patch:
        patch.setattr("parquet_bloom.lake.lake_reader.LivenessCheck.check", fail)
        with pytest.raises(ParquetBloomError, match="it fails now"):
            LakeIndex.create(tmp_path / "index", "low", lake=table.table)
    for lake in ({"iceberg": tmp_path}, {"delta": tmp_path}, {"iceberg": "n.t", "catalog": "nowhere"}):
        with pytest.raises(ParquetBloomError):
            LakeIndex.create(tmp_path / "index", "low", lake=lake)
    with LakeIndex.create(tmp_path / "index", "low", lake=table.table) as index:
        assert index.append().added == FILES


def test_versions_that_are_given(tmp_path: Path) -> None:
    """A version is what it is for; the index follows the table."""
    deltalake = pytest.importorskip("deltalake")
    root = str(tmp_path / "t")
    for number in range(3):
        deltalake.write_deltalake(root, pa.table({"id": range(10 * number, 10 * number + 10)}), mode="append")
    with LakeIndex.create(tmp_path / "index", "id", lake=deltalake.DeltaTable(root, version=0)) as index:
        assert index.append(parquet_bloom.delta(root, version=1)).added == 2
        assert len(index.unindexed) == 1
        assert index.append().added == 1
        assert index.snapshot().table["version"] == 2
    with LakeIndex.open(tmp_path / "index", lake=parquet_bloom.delta(root, version=0)) as index:
        assert [len(found) for found in index.lookup("id", [5, 15])] == [1, 0]
        rows = parquet_bloom.read_table(None, "id IN (5, 15)", index=index)
        assert rows["id"].to_pylist() == [5]


def test_an_append_reads_the_commits_since_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deltalake = pytest.importorskip("deltalake")
    from parquet_bloom.tables.delta.delta_table import DeltaSource

    root = str(tmp_path / "t")

    def add_rows(first: int) -> None:
        deltalake.write_deltalake(root, pa.table({"id": range(first, first + 10)}), mode="append")

    def append(**expected: int) -> None:
        """Append without a list of the table, and compare with what such a list says."""
        with LakeIndex.open(tmp_path / "index", live=False) as index, monkeypatch.context() as patch:
            patch.setattr(DeltaSource, "read_snapshot", no_list)
            report = index.append()
            assert {name: getattr(report, name) for name in expected} == expected
        snapshot = parquet_bloom.delta(root).read_snapshot()
        with LakeIndex.open(tmp_path / "index") as index:
            assert index.snapshot().table["version"] == snapshot.version
            assert index.unindexed == []
            assert index.state.manifest.num_live == len(snapshot.files)

    def no_list(source: Any) -> Any:
        raise AssertionError("the whole table was listed")

    for first in (0, 10, 20):
        add_rows(first)
    with LakeIndex.create(tmp_path / "index", "id", lake=root) as index:
        assert index.append().added == 3
    append(added=0, unchanged=3)
    add_rows(30)
    append(added=1, unchanged=3)
    table = deltalake.DeltaTable(root)
    table.delete("id = 5")  # a file is rewritten
    table.optimize.compact()  # all are, and the one before is of no version that is left
    append(added=1, unchanged=0)
    add_rows(40)
    deltalake.DeltaTable(root).create_checkpoint()
    append(added=1, unchanged=1)
    old = parquet_bloom.delta(root, version=2).read_snapshot().files[0]
    latest = parquet_bloom.delta(root).read_snapshot().version
    assert latest is not None
    # Where the commits do not tell everything, the list does.
    for change in (
        lambda: commit(tmp_path / "t", latest + 1, [add(Path(old.path).name, old.size)]),
        lambda: deltalake.DeltaTable(root).restore(2),
        lambda: deltalake.DeltaTable(root).alter.add_columns(
            [deltalake.Field("n", deltalake.schema.PrimitiveType("long"))]
        ),
        lambda: deltalake.write_deltalake(root, pa.table({"id": [7]}), mode="overwrite", schema_mode="overwrite"),
        lambda: [path.unlink() for path in sorted((tmp_path / "t" / "_delta_log").glob("*0.json"))],
    ):
        change()
        with LakeIndex.open(tmp_path / "index", live=False) as index:
            try:
                index.append()
            except ParquetBloomError:  # a log without a commit cannot be read at all
                break
        with LakeIndex.open(tmp_path / "index") as index:
            assert index.unindexed == []
            assert index.state.manifest.num_live == len(parquet_bloom.delta(root).read_snapshot().files)
    # Nor after files were taken out of the index.
    with LakeIndex.open(tmp_path / "index", live=False) as index:
        index.remove(index.state.segments[-1].files.paths()[-1])
        assert index.state.manifest.num_live is None


def test_a_file_that_failed_is_tried_again(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    root = tmp_path / "t"
    for number in range(2):
        deltalake.write_deltalake(root, pa.table({"id": [number]}), mode="append")
    path = parquet_bloom.delta(root).read_snapshot().files[0].path
    data = Path(path).read_bytes()
    Path(path).write_bytes(b"nothing")
    with LakeIndex.create(tmp_path / "index", "id", lake=root) as index:
        assert list(index.append(on_error=lambda error: None).failed) == [path]
        Path(path).write_bytes(data)
        assert index.append().added == 1
        assert index.append().unchanged == 2

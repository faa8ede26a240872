"""Indexes over paths of Variants in Delta and Iceberg tables: rows are those without one, whatever columns became."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.random_cases.random_paths import KEYS, SHREDDINGS, random_condition, random_document
from support.scale import scaled
from support.writers.delta_log import add, beginning, column, commit, inline_vector
from support.writers.iceberg_tables import HandTable
from support.writers.shredded_variants import MISSING, make_variants

import parquet_bloom
from parquet_bloom.errors import UnreadableColumnError, UnsupportedTypeError, VariantCastError
from parquet_bloom.hashing.column_type import from_arrow
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.scan.compatibility import DatasetCompatibility

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("pyroaring")

pytestmark = pytest.mark.usefixtures("settled_tokens")

KINDS = ["delta", "delta name", "delta id", "iceberg"]
ROWS = 24  # of a file
DELETED = {3, 4, ROWS + 1, ROWS + 20}  # of the first two files
FEATURES = ["variantType", "variantShredding", "deletionVectors", "columnMapping", "typeWidening"]
TYPES = {"k": "long", "v": "variant", "w": "double", "x": "variant", "renamed": "variant"}


class DeltaWriter:
    """A Delta table, whose files have columns by the names or numbers of a column mapping, or as the table does."""

    def __init__(self, root: Path, mode: str):
        self.root, self._mode, self._version = root, mode or "none", 0
        self._actions: list[dict[str, Any]] = []
        root.mkdir()

    def add_file(self, rows: pa.Table, numbers: Mapping[str, int], deleted: Sequence[int] = ()) -> None:
        fields = rows.schema
        if self._mode != "none":
            names = [f"c-{numbers[field.name]}" for field in fields]
            ids = [{"PARQUET:field_id": str(numbers[field.name])} for field in fields]
            fields = pa.schema(field.with_name(name) for field, name in zip(fields, names, strict=True))
            fields = pa.schema(field.with_metadata(one) for field, one in zip(fields, ids, strict=True))
        path = self.root / f"{len(self._actions)}.parquet"
        pq.write_table(rows.rename_columns(fields.names).cast(fields), path, row_group_size=6)
        members = {"deletionVector": inline_vector(deleted)} if deleted else {}
        self._actions.append(add(path.name, path.stat().st_size, {"numRecords": rows.num_rows}, **members))

    def name_columns(self, numbers: Mapping[str, int]) -> Any:
        """Commit what the columns are called, and the files at first; return the table."""
        mode = {"delta.columnMapping.mode": self._mode, "delta.columnMapping.maxColumnId": "9"}
        is_mapped = self._mode != "none"
        fields = [column(name, TYPES[name], number if is_mapped else None) for name, number in numbers.items()]
        files = self._actions if not self._version else []
        settings = {"delta.enableDeletionVectors": "true"} | (mode if is_mapped else {})
        commit(self.root, self._version, [*beginning(fields, features=FEATURES, configuration=settings), *files])
        self._version += 1
        return parquet_bloom.delta(self.root)


class IcebergWriter:
    """An Iceberg table, whose files have field ids."""

    def __init__(self, root: Path):
        self._hand = HandTable(root, [[]], version=3)
        self._files: list[Any] = []
        self._vectors: dict[str, Sequence[int]] = {}

    def add_file(self, rows: pa.Table, numbers: Mapping[str, int], deleted: Sequence[int] = ()) -> None:
        ids = {name: numbers[name] for name in rows.column_names}
        self._files.append(self._hand.write_file(rows, ids, group=6))
        if deleted:
            self._vectors[self._files[-1].path] = deleted

    def name_columns(self, numbers: Mapping[str, int]) -> Any:
        """Write metadata of what the columns are called, and of the files at first; return the table."""
        metadata = self._hand.metadata
        fields = [{"id": n, "name": name, "required": False, "type": TYPES[name]} for name, n in numbers.items()]
        if metadata["snapshots"]:
            metadata["schemas"].append({"type": "struct", "schema-id": len(metadata["schemas"]), "fields": fields})
            metadata["current-schema-id"] = len(metadata["schemas"]) - 1
        else:
            metadata["schemas"][0]["fields"] = fields
            vectors = self._hand.write_vectors(self._vectors, manifest=1) if self._vectors else []
            self._hand.add_snapshot([*self._files, *vectors])
        return parquet_bloom.iceberg(self._hand.write_metadata())


NUMBERS = {"k": 1, "v": 2, "w": 3}


def open_writer(kind: str, root: Path) -> DeltaWriter | IcebergWriter:
    return IcebergWriter(root) if kind == "iceberg" else DeltaWriter(root, kind.partition(" ")[2])


def make_table(kind: str, root: Path, rng: random.Random) -> Any:
    """Return a table of a file of each shredding and one without the column; some have deleted rows or other types."""
    writer = open_writer(kind, root)
    for number, shredding in enumerate(SHREDDINGS):
        some = [random_document(rng, 100 * number + i) for i in range(ROWS)]
        numbers = range(number * ROWS, (number + 1) * ROWS)
        floats = pa.array([float(k) for k in numbers], pa.float32() if number % 2 else pa.float64())
        rows = pa.table({"k": pa.array(numbers, pa.int64()), "v": make_variants(some, shredding), "w": floats})
        writer.add_file(rows, NUMBERS, [k - number * ROWS for k in numbers if k in DELETED])
    last = pa.array(range(len(SHREDDINGS) * ROWS, (len(SHREDDINGS) + 1) * ROWS), pa.int64())
    writer.add_file(pa.table({"k": last, "w": last.cast(pa.float64())}), NUMBERS)
    return writer.name_columns(NUMBERS)


def read(table: Any, where: str, index: object = None, **options: Any) -> list[int]:
    return sorted(parquet_bloom.read_table(table, where, ["k"], index=index, **options)["k"].to_pylist())


def count_skipped(table: Any, where: str, index: object) -> int:
    return parquet_bloom.prune(table, where, index=index).unopened_by.get("index", 0)


@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_without_an_index(tmp_path: Path, kind: str) -> None:
    rng = random.Random(KINDS.index(kind))
    table = make_table(kind, tmp_path / "t", rng)
    granularity = rng.choice(["file", "row_group"])
    skipped = found = answered = 0
    with LakeIndex.create(tmp_path / "i", KEYS, lake=table, granularity=granularity) as index:
        report = index.append()
        assert not report.failed
        assert {len(files) for files in report.uncovered.values()} == {1}  # the file without the column
        assert index.check(8).problems == []
        dataset = parquet_bloom.dataset(table, index=index)
        for number in range(scaled(20)):
            where = random_condition(rng, ROWS * (len(SHREDDINGS) + 1))
            if number % 3 == 0:
                where = f"({where}) AND (w < {rng.randrange(200)} OR v IS NULL)"
            try:
                expected = read(table, where)
            except VariantCastError:
                continue  # a row that cannot be cast, in a file that an index may rule out
            assert not DELETED & {*expected}
            assert read(table, where, index) == expected, where
            assert dataset.scan(where).count_rows() == len(expected), where
            skipped += count_skipped(table, where, index)
            found += len(expected)
            answered += 1
        shown = f"w >= {ROWS} AND w < {2 * ROWS} AND v IS NOT NULL"  # of a file with other types, and shredded
        of_file = read(table, shown, index)
        assert len(of_file) > ROWS // 2
        assert {*of_file} <= {*range(ROWS, 2 * ROWS)} - DELETED
    assert answered > scaled(20) // 3
    assert found > answered // 10
    assert skipped > 2 * answered


@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_files(tmp_path: Path, kind: str) -> None:
    """Where the files name the columns as the table does; and Variants that are null, or have a Variant's null."""
    rng = random.Random(40 + KINDS.index(kind))
    writer = open_writer(kind, tmp_path / "t")
    nulls = []
    for number, shredding in enumerate(SHREDDINGS):
        some = [rng.choice([MISSING, None, {"a": {"b": f"x{i}"}}, "text"]) for i in range(ROWS)]
        nulls += [number * ROWS + i for i in range(ROWS) if some[i] is MISSING]
        numbers = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
        writer.add_file(pa.table({"k": numbers, "v": make_variants(some, shredding)}), NUMBERS)
    table = writer.name_columns({"k": 1, "v": 2})
    assert read(table, "v IS NULL") == nulls
    assert read(table, "v IS NOT NULL") == sorted({*range(ROWS * len(SHREDDINGS))} - {*nulls})
    assert read(table, f"v IS NULL AND k < {ROWS}", variant="json") == [k for k in nulls if k < ROWS]
    assert parquet_bloom.dataset(table).scan("v IS NULL").count_rows() == len(nulls)
    with pytest.raises(UnreadableColumnError, match=r"'v': its Variants are shredded"):
        parquet_bloom.read_table(table, "v IS NOT NULL")


def change_columns(tmp_path: Path, kind: str) -> tuple[Callable[[Mapping[str, int]], Any], LakeIndex]:
    """Return what renames the columns `v` and `x` of a table, by their numbers, and an index over both."""
    writer = open_writer(kind, tmp_path / "t")
    numbers = {"k": 1, "v": 2, "x": 4}
    for number in range(4):
        some = range(number * ROWS, (number + 1) * ROWS)
        shredding = {"a": pa.string()} if number % 2 else None
        variants = {name: make_variants([{"a": f"{name}{k}"} for k in some], shredding) for name in "vx"}
        writer.add_file(pa.table({"k": pa.array(some, pa.int64())} | variants), numbers)
    index = LakeIndex.create(tmp_path / "i", ["v:a::string", "x:a::string"], lake=writer.name_columns(numbers))
    assert index.append().added == 4
    return writer.name_columns, index


MAPPED = ["delta name", "delta id", "iceberg"]


@pytest.mark.parametrize("kind", MAPPED)
def test_columns_that_have_swapped_names(tmp_path: Path, kind: str) -> None:
    """What the index says of the other column would rule out the file that has the row."""
    name_columns, index = change_columns(tmp_path, kind)
    table = name_columns({"k": 1, "v": 4, "x": 2})
    for name, other in ("vx", "xv"):
        assert read(table, f"{name}:a::string = '{other}30'", index) == [30]
        assert read(table, f"{name}:a::string = '{name}30'", index) == []
    index.append(table)
    assert read(table, "v:a::string IN ('x30', 'x31')", index) == [30, 31]
    assert count_skipped(table, "v:a::string IN ('x30', 'x31')", index) == 3


@pytest.mark.parametrize("kind", MAPPED)
def test_a_column_in_place_of_a_dropped_one(tmp_path: Path, kind: str) -> None:
    name_columns, index = change_columns(tmp_path, kind)
    table = name_columns({"k": 1, "v": 5, "x": 4})
    where = "v:a::string IS NULL AND x:a::string = 'x30'"
    assert read(table, where, index) == [30]
    assert read(table, "v:a::string = 'v30'", index) == []
    assert count_skipped(table, "v:a::string = 'none'", index) == 0
    assert count_skipped(table, "x:a::string = 'x30'", index) == 3


@pytest.mark.ci
@pytest.mark.parametrize("kind", MAPPED)
def test_a_renamed_column(tmp_path: Path, kind: str) -> None:
    name_columns, index = change_columns(tmp_path, kind)
    table = name_columns({"k": 1, "renamed": 2, "x": 4})
    assert read(table, "renamed:a::string = 'v30'", index) == [30]
    with LakeIndex.create(tmp_path / "j", ["renamed:a::string"], lake=table) as other:
        other.append()
        assert read(table, "renamed:a::string = 'v30'", other) == [30]
        assert count_skipped(table, "renamed:a::string = 'v30'", other) == 3


def test_reports(tmp_path: Path) -> None:
    """Files are named as for other columns, and of a path that no column has there is one note."""
    _, index = change_columns(tmp_path, "delta")
    table = parquet_bloom.delta(tmp_path / "t")
    for where in ("v:a::string = 'v30'", "variant_get(v, '$.a', 'string') IN ('v30', 'v31') AND k > 0"):
        report = parquet_bloom.prune(table, where, index=index)
        assert [Path(file).stem for file in report.selected] == ["1"]
        assert "3 files ruled out by the index" in str(report)
        assert report.to_dict()["unopened_by"] == {"index": 3}
        assert {file.unopened for file in report.files if not file.selected} == {
            "the index says: 'v:$.a::string' is absent"
        }
    report = parquet_bloom.prune(table, "v:a::string = 'v30'")
    assert {str(doubt) for _, _, doubt in report.doubts} == {"'v': $.a is not stored as a column"}
    with pytest.raises(UnsupportedTypeError, match=r"it cannot be indexed; index a path of it, column:path::TYPE"):
        LakeIndex.create(tmp_path / "j", ["v"], lake=table).append()


def test_rows_are_deleted_by_keys_of_a_path(tmp_path: Path) -> None:
    change_columns(tmp_path, "delta")
    report = parquet_bloom.delete(tmp_path / "t", ["v30", "v50"], "v:a::string")
    assert report.num_rows == 2
    table = parquet_bloom.delta(tmp_path / "t")
    with LakeIndex.open(tmp_path / "i", lake=table) as index:
        index.append()
        assert read(table, "v:a::string IN ('v29', 'v30', 'v50', 'v51')", index) == [29, 51]


def test_a_column_that_is_named_like_a_path() -> None:
    """It and the path are not told apart, so that neither is trusted."""
    variant = pa.struct([pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")])
    for name in ("v:$.a::string", "v:$['a']::string"):
        for columns, trusted in (({"v": variant}, True), ({"v": variant, name: pa.string()}, False)):
            trust = DatasetCompatibility.of(pa.schema(columns), [name])
            assert trust.is_same(name, from_arrow(pa.string())) is trusted
            assert not trust.is_same(name, from_arrow(pa.int64()))

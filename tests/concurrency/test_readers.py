"""Readers of files whose filters are embedded, replaced and dropped meanwhile: no error, and no row too few."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner
from support.processes.churn import FILES, GROUP_ROWS, ROWS, Churn, name_of, value_of, write_lake

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.cli import tool
from parquet_bloom.file.metadata_cache import MetadataCache
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.scan.row_reader import RowReader

REWRITES = 15  # of files, while a reader is at work, and at least so many
ABSENT = 3  # no id is


def names(table: pa.Table) -> list[str]:
    return table["name"].to_pylist()


def by_prune(lake: Any, value: int) -> list[str]:
    report = parquet_bloom.prune(lake.folder, f"id = {value}")
    assert not report.doubts
    return names(RowReader(report).read_table())


def by_prune_without_cache(lake: Any, value: int) -> list[str]:
    report = parquet_bloom.prune(lake.folder, f"id = {value}", cache=None)
    assert not report.doubts
    return names(RowReader(report, cache=None).read_table())


def by_read_table(lake: Any, value: int) -> list[str]:
    return names(parquet_bloom.read_table(lake.folder, f"id = {value} AND name = '{name_of(value)}'"))


def by_batches(lake: Any, value: int) -> list[str]:
    return names(parquet_bloom.dataset(lake.folder).scan(f"id = {value}").to_reader(batch_size=7).read_all())


def by_open(lake: Any, value: int) -> list[str]:
    """Filters probed one by one belong to the file that was opened, whatever file has its name by now."""
    holders = set()
    for path in sorted(lake.folder.glob("*.parquet")):
        with parquet_bloom.open(path) as file:
            result = [file.chunk(row_group, "id") for row_group in file.row_groups]
            assert len(result) == ROWS // GROUP_ROWS
            if any(chunk is None or value in chunk.filter for chunk in result):
                holders.add(int(path.stem))
    number = value // 7 // ROWS
    assert value == ABSENT or number in holders
    return [] if value == ABSENT else [name_of(value)]


def by_verify(lake: Any, value: int) -> list[str]:
    for path in sorted(lake.folder.glob("*.parquet")):
        assert parquet_bloom.verify(path, data=True).ok
    return [] if value == ABSENT else [name_of(value)]


def by_command(lake: Any, value: int) -> list[str]:
    done = CliRunner().invoke(tool, ["find", str(lake.folder), "--where", f"id = {value}", "--format", "ndjson"])
    assert done.exit_code in (0, 1), done.output
    assert "error" not in done.stderr
    return [name_of(value)] if name_of(value) in done.stdout else []


def by_dataset(lake: Any, value: int) -> list[str]:
    """Of pyarrow: it takes what is named as a temporary file for hidden, as Spark does."""
    return names(ds.dataset(lake.folder).to_table(filter=ds.field("id") == value))


@pytest.fixture(scope="module")
def readers(lake: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Callable[[Any, int], list[str]]]:
    """Those that keep something from one question to the next."""
    folder = tmp_path_factory.mktemp("beside")
    cache = MetadataCache()
    index = LakeIndex.create(folder / "index", "id", lake=lake.folder)
    index.append(lake.folder)
    opened = ds.dataset(lake.folder)

    def by_cache(lake: Any, value: int) -> list[str]:
        report = parquet_bloom.prune(lake.folder, f"id = {value}", cache=cache)
        assert not report.doubts
        return names(parquet_bloom.dataset(lake.folder, cache=cache).to_table(filter=ds.field("id") == value))

    def by_index(lake: Any, value: int) -> list[str]:
        return names(parquet_bloom.read_table(lake.folder, f"id = {value}", index=index))

    def by_index_anew(lake: Any, value: int) -> list[str]:
        with LakeIndex.open(folder / "index") as again:
            number = value // 7 // ROWS
            paths = [Path(match.path).stem for match in again.lookup("id", [value])[0]]
            assert value == ABSENT or str(number) in paths
        return names(parquet_bloom.read_table(None, f"id = {value}", index=str(folder / "index")))

    def by_zones(lake: Any, value: int) -> list[str]:
        location = folder / f"{value}.zones.parquet"
        if not location.exists():
            zones.build(lake.folder, "id", location, rows_per_zone=64)
        return names(parquet_bloom.read_table(lake.folder, f"id = {value}", zones=str(location)))

    def by_open_dataset(lake: Any, value: int) -> list[str]:
        """Opened once: it goes on with the footers that it has, which pages that never move allow."""
        return names(opened.to_table(filter=ds.field("id") == value))

    return {
        one.__name__: one for one in (by_cache, by_index, by_index_anew, by_zones, by_open_dataset)
    }  # fmt: skip


def ask(lake: Any, reader: Callable[[Any, int], list[str]]) -> None:
    chance = random.Random(3)
    until = lake.rewritten + REWRITES
    while lake.rewritten < until:
        value = value_of(chance.randrange(FILES), chance.randrange(ROWS))
        assert reader(lake, value) == [name_of(value)]
        assert reader(lake, ABSENT) == []


OWN = [
    by_prune,
    by_prune_without_cache,
    by_read_table,
    by_batches,
    by_open,
    by_verify,
    by_command,
    by_dataset,
]


@pytest.mark.parametrize("reader", OWN, ids=lambda reader: reader.__name__)
def test_that_begin_anew(reader: Callable[[Any, int], list[str]], lake: Any) -> None:
    ask(lake, reader)


@pytest.mark.parametrize("name", ["by_cache", "by_index", "by_index_anew", "by_zones", "by_open_dataset"])
def test_that_keep_something(name: str, lake: Any, readers: dict[str, Any]) -> None:
    ask(lake, readers[name])


SETTINGS = [None, "enable_object_cache", "parquet_metadata_cache", "enable_external_file_cache"]


@pytest.fixture
def duckdb_rows(request: pytest.FixtureRequest) -> Iterator[Callable[[Path, int], list[str]]]:
    """Names in the rows of an id, by DuckDB with one of its caches switched on."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        if request.param is not None:
            try:
                connection.execute(f"SET {request.param} = true")
            except duckdb.Error:
                pytest.skip(f"this DuckDB has no {request.param}")

        def rows(folder: Path, value: int) -> list[str]:
            answer = connection.execute(f"SELECT name FROM '{folder}/*.parquet' WHERE id = {value}")
            return [name for (name,) in answer.fetchall()]

        yield rows


@pytest.mark.parametrize("duckdb_rows", SETTINGS, indirect=True)
def test_duckdb_between_rewrites(duckdb_rows: Callable[[Path, int], list[str]], tmp_path: Path) -> None:
    """A reader's cached data of a file does not outlive a rewrite; reference/limits.md covers queries meanwhile."""
    write_lake(tmp_path)
    churn = Churn(tmp_path, 0, ["id", "name", "value"])
    chance = random.Random(3)
    for _ in range(5):
        for path in sorted(tmp_path.iterdir()):
            churn.rewrite(path)
            value = value_of(int(path.stem), chance.randrange(ROWS))
            assert duckdb_rows(tmp_path, value) == [name_of(value)]
            assert duckdb_rows(tmp_path, ABSENT) == []
    assert churn.rewritten >= FILES


@pytest.mark.parametrize("duckdb_rows", SETTINGS, indirect=True)
def test_duckdb_while_filters_are_added(duckdb_rows: Callable[[Path, int], list[str]], tmp_path: Path) -> None:
    """A footer from before the embedding still has valid offsets, so mixing the two loses nothing."""
    more = [f"more_{i}" for i in range(40)]
    write_lake(tmp_path, more)
    embedding = threading.Thread(
        target=lambda: [
            parquet_bloom.embed(path, [column]) for column in ["id", *more] for path in sorted(tmp_path.iterdir())
        ]
    )
    embedding.start()
    chance = random.Random(3)
    try:
        while embedding.is_alive():
            value = value_of(chance.randrange(FILES), chance.randrange(ROWS))
            assert duckdb_rows(tmp_path, value) == [name_of(value)]
            assert duckdb_rows(tmp_path, ABSENT) == []
    finally:
        embedding.join()

"""Commits that fail, are interrupted or end in doubt: nothing is left over, and no committed file is deleted."""

from __future__ import annotations

import errno
import os
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.writers import changing_tables as tables

import parquet_bloom
from parquet_bloom.errors import ConcurrentChangeError, ParquetBloomError, StorageError
from parquet_bloom.tables.embed import exchange_delta as embed_delta
from parquet_bloom.tables.embed import exchange_iceberg as embed_iceberg
from parquet_bloom.tables.embed.embed_table import embed_table

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")


def remote(catalog: Any, commit: Callable[..., Any]) -> Any:
    """The same catalog, behind a network: `commit` gets its own method and the arguments of each commit."""
    from pyiceberg.catalog.sql import SqlCatalog

    class Remote(SqlCatalog):
        def commit_table(self, *args: Any) -> Any:
            return commit(super().commit_table, *args)

    return Remote(catalog.name, **catalog.properties)


class Kind(NamedTuple):
    """A table of either format, and where its commit can be disturbed."""

    table: Any
    folder: Path
    count: Callable[[], int]
    rows: Callable[[], Any]
    target: Any


def make(kind: str, folder: Path) -> Kind:
    from deltalake import DeltaTable

    if kind == "delta":
        root = tables.make_delta(folder / "table", 2, partitioned=False)
        return Kind(
            root, folder, lambda: DeltaTable(root).version(), lambda: tables.read_delta(root), embed_delta.DeltaTarget
        )
    table, reader = tables.make_iceberg(folder, 2), tables.open_catalog(folder)
    load = lambda: reader.load_table("db.events")  # noqa: E731
    return Kind(
        table,
        folder,
        lambda: len(load().snapshots()),
        lambda: tables.contents(load().scan().to_arrow()),
        embed_iceberg.IcebergTarget,
    )


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Parquet writer option")
        yield


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    return make(request.param, tmp_path)


def files_in(folder: Path) -> set[str]:
    return {
        str(path) for path in folder.rglob("*") if path.is_file() and not path.name.endswith((".db", ".db-journal"))
    }


@pytest.fixture
def library_commit(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Replace the commit of a catalog, or the writing of a log's file, by a function that gets it and its arguments."""

    def replace(function: Callable[..., Any]) -> None:
        if not isinstance(kind.table, str):
            kind.table.catalog = remote(kind.table.catalog, function)
            return
        genuine = embed_delta.write_commit

        def write_commit(*args: Any) -> None:
            try:
                function(genuine, *args)
            except RuntimeError as error:
                raise StorageError(str(error)) from error

        monkeypatch.setattr(embed_delta, "write_commit", write_commit)

    return replace


@pytest.mark.parametrize("error", [RuntimeError("it is refused"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_commit_that_fails_leaves_nothing(kind: Kind, library_commit: Any, error: BaseException) -> None:
    before, count, files = kind.rows(), kind.count(), files_in(kind.folder)

    def fail(*args: Any, **more: Any) -> None:
        raise error

    library_commit(fail)
    expected = StorageError if isinstance(error, Exception) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        embed_table(kind.table, ["id"])
    if isinstance(error, Exception):
        assert "cannot commit to the" in str(caught.value)
        assert "it is refused" in str(caught.value)
    assert files_in(kind.folder) == files
    assert (kind.rows(), kind.count()) == (before, count)


@pytest.mark.parametrize("error", [RuntimeError("lost"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_commit_that_succeeds_all_the_same_is_kept(kind: Kind, library_commit: Any, error: BaseException) -> None:
    before, count = kind.rows(), kind.count()

    def commit(genuine: Any, *args: Any, **more: Any) -> None:
        genuine(*args, **more)
        raise error

    library_commit(commit)
    if isinstance(error, Exception):
        report = embed_table(kind.table, ["id"])
        assert len(report.files) == 2
        assert report.changed
    else:
        with pytest.raises(KeyboardInterrupt):
            embed_table(kind.table, ["id"])
    assert (kind.rows(), kind.count()) == (before, count + 1)
    assert not embed_table(kind.table, ["id"]).changed


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("error", [RuntimeError("lost"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_while_it_is_unknown_no_file_is_deleted(
    kind: Kind, library_commit: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, committed: bool
) -> None:
    before, count, old = kind.rows(), kind.count(), set(map(str, kind.folder.rglob("*.parquet")))

    def commit(genuine: Any, *args: Any, **more: Any) -> None:
        if committed:
            genuine(*args, **more)
        raise error

    def unknown(self: Any, *args: Any) -> None:
        raise OSError("the network is down")

    library_commit(commit)
    with monkeypatch.context() as patch:
        patch.setattr(kind.target, "find_commit", unknown)
        with pytest.raises(ParquetBloomError if isinstance(error, Exception) else KeyboardInterrupt) as caught:
            embed_table(kind.table, ["id"])
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert "it is not known whether the commit succeeded" in text
    assert "the network is down" in text
    assert "2 new files were kept" in text
    new = set(map(str, kind.folder.rglob("*.parquet"))) - old
    assert len(new) == 2
    assert any(path in text for path in new)
    assert (kind.rows(), kind.count()) == (before, count + committed)
    # The next run does it, if it is not done.
    monkeypatch.undo()
    library_commit(lambda genuine, *args, **more: genuine(*args, **more))
    assert embed_table(kind.table, ["id"]).changed is not committed
    assert (kind.rows(), kind.count()) == (before, count + 1)


@pytest.mark.ci
def test_an_interrupt_while_files_are_written(kind: Kind) -> None:
    files, count = files_in(kind.folder), kind.count()

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_table(kind.table, ["id", "s"], progress=interrupt)
    assert files_in(kind.folder) == files
    assert kind.count() == count


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_a_full_disk(disk: Path, name: str) -> None:
    kind = make(name, disk)
    status = os.statvfs(disk)
    (disk / "fill").write_bytes(bytes(status.f_bavail * status.f_frsize))
    files = files_in(disk)
    with pytest.raises(StorageError) as caught:
        embed_table(kind.table, ["id", "s"], threads=1)
    assert caught.value.errno == errno.ENOSPC
    assert files_in(disk) == files


def test_new_files_that_a_vacuum_has_deleted(kind: Kind) -> None:
    """What `vacuum(full=True, retention_hours=0)` does to files that are not committed yet."""
    before, old = kind.rows(), set(kind.folder.rglob("*.parquet"))
    gone: list[Path] = []

    def vacuum(done: int, total: int) -> None:
        if done == total:
            gone.append(min(set(kind.folder.rglob("*.parquet")) - old))
            gone[0].unlink()

    report = embed_table(kind.table, ["id"], progress=vacuum)
    assert len(report.files) == 1
    assert [one.reason for one in report.skipped] == ["another process, perhaps a vacuum, has deleted the new file"]
    assert kind.rows() == before
    assert len(embed_table(kind.table, ["id"]).files) == 1


@pytest.mark.ci
def test_a_catalog_that_may_have_got_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that did not answer may commit later, as long as the branch is where it was."""
    from pyiceberg.exceptions import CommitStateUnknownException, ForbiddenError

    table = tables.make_iceberg(tmp_path, 2)
    catalog, before, sent = table.catalog, tables.read_iceberg(table), []

    def lose(commit: Any, *args: Any) -> None:
        sent.append(args)
        raise CommitStateUnknownException("no answer")

    monkeypatch.setattr(embed_iceberg, "_ends_with_call", lambda catalog: False)  # as if it were not a local database
    table.catalog = remote(catalog, lose)
    with pytest.raises(ParquetBloomError, match=r"not known whether the commit succeeded.*may get it yet"):
        embed_table(table, ["id"])
    catalog.commit_table(*sent[0])  # it arrives
    assert tables.read_iceberg(table) == before
    assert not embed_table(table, ["id"]).changed
    assert len(tables.reload(table).snapshots()) == 3
    # If another writer has committed, it cannot arrive any more.
    old = set(tmp_path.rglob("*.parquet")) | set(tmp_path.rglob("*.avro"))

    overtaken: list[Any] = []

    def overtake(commit: Any, *args: Any) -> None:
        if not overtaken:
            overtaken.append(catalog.load_table("db.events").append(tables.rows(7_000, 5)))
        raise CommitStateUnknownException("no answer")

    table.catalog = remote(catalog, overtake)
    with pytest.raises(StorageError, match="cannot commit to the Iceberg table: no answer"):
        embed_table(table, ["s"])
    new = (set(tmp_path.rglob("*.parquet")) | set(tmp_path.rglob("*.avro"))) - old
    assert len(new) == 3  # the other writer's file, its manifest and the list of manifests
    # What a server refuses is not in doubt.
    old |= new

    def forbid(commit: Any, *args: Any) -> None:
        raise ForbiddenError("not allowed")

    table.catalog = remote(catalog, forbid)
    with pytest.raises(StorageError, match="not allowed"):
        embed_table(table, ["s"])
    assert set(tmp_path.rglob("*.parquet")) | set(tmp_path.rglob("*.avro")) == old
    # Unless an earlier request, which was not answered, may yet arrive.
    asked: list[Any] = []

    def lose_then_forbid(commit: Any, *args: Any) -> None:
        asked.append(args)
        raise CommitStateUnknownException("no answer") if len(asked) == 1 else ForbiddenError("not allowed")

    table.catalog, before = remote(catalog, lose_then_forbid), tables.read_iceberg(table)
    with pytest.raises(ParquetBloomError, match=r"not known whether .*not allowed.*may get it yet"):
        embed_table(table, ["s"])
    catalog.commit_table(*asked[0])
    assert tables.read_iceberg(table) == before
    assert not embed_table(table, ["s"]).changed


def test_a_commit_that_is_refused_for_its_own_sake(tmp_path: Path) -> None:
    """A client that did not get the answer sends a request again, and is told that the branch has moved."""
    from pyiceberg.exceptions import CommitFailedException

    table = tables.make_iceberg(tmp_path, 2)
    before = tables.read_iceberg(table)

    def twice(commit: Any, *args: Any) -> None:
        commit(*args)
        raise CommitFailedException("the branch has moved")

    table.catalog = remote(table.catalog, twice)
    report = embed_table(table, ["id"])
    assert (len(report.files), report.attempts) == (2, 1)
    assert report.new_version == tables.reload(table).current_snapshot().snapshot_id
    assert tables.read_iceberg(table) == before


@pytest.mark.ci
def test_each_try_meets_another_writer(tmp_path: Path) -> None:
    table = tables.make_iceberg(tmp_path, 1)
    catalog, tries, late = table.catalog, [], 99

    def commit(genuine: Any, *args: Any) -> Any:
        tries.append(1)
        if len(tries) <= late:
            catalog.load_table("db.events").append(tables.rows(10_000 + len(tries), 1))
        return genuine(*args)

    table.catalog = remote(catalog, commit)
    files = len(list(tmp_path.rglob("*.parquet")))
    with pytest.raises(ConcurrentChangeError, match="during each of 3 attempts; nothing was changed") as caught:
        embed_table(table, ["id"], retries=2)
    assert "\n" not in str(caught.value)
    assert len(tries) == 3
    assert len(list(tmp_path.rglob("*.parquet"))) == files + 3  # of the other writer
    late = 5
    report = embed_table(table, ["id"], retries=2)
    assert (report.attempts, len(report.files)) == (3, files + 3)  # those that came meanwhile are for another time
    assert len(tables.reload(table).snapshots()) == 7


# ------------------------------------------------------------------------- metadata files that pyiceberg has written


def read_folder(folder: Path) -> Any:
    """Return the rows of the table that is read without its catalog."""
    return tables.contents(parquet_bloom.dataset(parquet_bloom.iceberg(folder)).scan().to_arrow())


@pytest.mark.ci
@pytest.mark.parametrize("how", ["locked", "full at once", "full", "refused", "interrupted"])
@pytest.mark.parametrize("what", ["files", "properties", "both"])
def test_no_metadata_file_is_left(tmp_path: Path, how: str, what: str) -> None:
    """A commit that fails when the catalog has written the metadata file already, or while it does."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException

    table = tables.make_iceberg(tmp_path, 2)
    if what == "properties":
        embed_table(table, ["id"])
    before, files, folder = tables.read_iceberg(table), files_in(tmp_path), tmp_path / "warehouse" / "db" / "events"
    calls: list[str] = []

    class Failing(SqlCatalog):
        @staticmethod
        def _write_metadata(metadata: Any, io: Any, metadata_path: str) -> None:
            calls.append(metadata_path)
            path = Path(metadata_path.removeprefix("file://"))
            if how != "full at once":
                SqlCatalog._write_metadata(metadata, io, metadata_path)
            if how.startswith("full"):
                path.write_bytes(path.read_bytes()[:1000] if path.exists() else b"")
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if how == "refused":
                raise CommitFailedException("another was first")
            if how == "interrupted":
                raise KeyboardInterrupt

    more = {"set_property": what != "files", "retries": 2}
    genuine, properties = table.catalog, table.catalog.properties
    if how == "locked":
        other = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # readers go on, writers wait, and give up
        properties = {**properties, "uri": f"{properties['uri']}?timeout=0.1"}
    table.catalog = Failing("catalog", **properties)
    with pytest.raises(KeyboardInterrupt if how == "interrupted" else ParquetBloomError):
        embed_table(table, ["id"], **more)
    if how == "locked":
        other.close()
    table.catalog = genuine
    assert len(calls) == (3 if how == "refused" else 1)
    assert files_in(tmp_path) == files
    assert read_folder(folder) == tables.read_iceberg(table) == before
    assert embed_table(table, ["id"], **more).changed
    assert read_folder(folder) == before


def test_metadata_files_of_others_are_kept(tmp_path: Path) -> None:
    """The catalog opens files of commits that came between, which later ones may not name any more."""
    table = tables.make_iceberg(tmp_path, 2)
    with table.transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "1"})
    catalog, names = table.catalog, set()

    def late(commit: Any, *args: Any) -> Any:
        load = catalog.load_table
        load("db.events").append(tables.rows(7_000, 5))
        try:
            return commit(*args)
        finally:
            for number in range(3):
                load("db.events").append(tables.rows(8_000 + number, 1))
            names.update(path.name for path in tmp_path.rglob("*.metadata.json"))

    table.catalog = remote(catalog, late)
    with pytest.raises(ConcurrentChangeError):
        embed_table(table, ["id"], retries=0)
    assert {path.name for path in tmp_path.rglob("*.metadata.json")} == names
    assert len(names) == 8
    assert read_folder(tmp_path / "warehouse" / "db" / "events") == tables.read_iceberg(table)


def test_a_lost_answer_of_a_commit_of_properties(tmp_path: Path) -> None:
    """The catalog has taken the metadata file, which is not to be deleted."""
    table = tables.make_iceberg(tmp_path, 2)
    embed_table(table, ["id"])

    def lose(commit: Any, *args: Any) -> None:
        commit(*args)
        raise RuntimeError("no answer")

    table.catalog = remote(table.catalog, lose)
    with pytest.raises(ParquetBloomError, match="no answer"):
        embed_table(table, ["id"], set_property=True)
    assert tables.reload(table).metadata.properties["write.parquet.bloom-filter-enabled.column.id"] == "true"

"""A table that is read by its folder, in which writers that died, lost or are not finished have left files."""

from __future__ import annotations

import gzip
import json
import logging
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.tables.iceberg.iceberg_table import iceberg
from parquet_bloom.tables.iceberg.metadata_folder import ListedFile, MetadataCandidate, choose_among

from .conftest import rows

pytest.importorskip("sqlalchemy")
sql = pytest.importorskip("pyiceberg.catalog.sql")


class Died(BaseException):
    """The end of a writer."""


@pytest.fixture
def root(table: Any, tmp_path: Path) -> Path:
    return tmp_path / "wh" / "n" / "t"


@pytest.fixture
def die(catalog: Any) -> Callable[..., Path]:
    """Append rows by a writer that ends when it has written its metadata file; returns that file."""

    def run(error: BaseException, change: Callable[[Any], Any] = lambda table: table.append(rows(100))) -> Path:
        written: list[str] = []

        class Dying(sql.SqlCatalog):
            @staticmethod
            def _write_metadata(metadata: Any, io: Any, metadata_path: str) -> None:
                sql.SqlCatalog._write_metadata(metadata, io, metadata_path)
                written.append(metadata_path)
                raise error

        with pytest.raises(type(error)):
            change(Dying("lake", **catalog.properties).load_table("n.t"))
        return Path(written[0].removeprefix("file://"))

    return run


def ids(given: Any, **more: Any) -> list[int]:
    found: list[int] = parquet_bloom.dataset(iceberg(given, **more)).scan().to_arrow()["id"].to_pylist()
    return sorted(found)


def latest(root: Path) -> Path:
    return max((root / "metadata").glob("*.metadata.json"))


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "one byte": lambda data: data[:1],
    "cut": lambda data: data[: len(data) // 2],
    "all but one byte": lambda data: data[:-1],
    "cut behind a nested object": lambda data: data[: data.index(b"}") + 1],
    "no blocks of it on the disk": lambda data: bytes(len(data)),
    "the first block on the disk": lambda data: data[:64] + bytes(len(data) - 64),
    "spaces": lambda data: b"  \n",
    "cut gzip": lambda data: gzip.compress(data)[:-9],
}


@pytest.mark.ci
@pytest.mark.parametrize("way", BROKEN)
def test_a_file_that_is_not_whole(
    catalog: Any, root: Path, die: Callable[..., Path], way: str, caplog: pytest.LogCaptureFixture
) -> None:
    left = die(Died())
    left.write_bytes(BROKEN[way](left.read_bytes()))
    opened = iceberg(root)
    for _ in range(3):
        assert opened.read_snapshot().version == catalog.load_table("n.t").current_snapshot().snapshot_id
    assert ids(root) == list(range(6))
    said = [record.getMessage() for record in caplog.records if record.name == "parquet_bloom.tables"]
    assert len(said) == 2  # each object says it once
    assert all(left.name in text and "is passed over" in text and text.startswith(str(root)) for text in said)
    catalog.load_table("n.t").append(rows(6))  # of the same number
    assert len(list((root / "metadata").glob("00003-*"))) == 2
    assert ids(root) == list(range(9))
    assert len(opened.read_snapshot().files) == 3
    catalog.load_table("n.t").append(rows(9))
    assert ids(root) == ids("n.t", catalog=catalog) == list(range(12))


def test_a_file_that_is_being_written(catalog: Any, root: Path) -> None:
    """A reader in between has the version before, and the new one as soon as it is there."""
    catalog.load_table("n.t").append(rows(6))
    path, opened = latest(root), iceberg(root)
    data = path.read_bytes()
    path.write_bytes(data[:100])
    assert len(opened.read_snapshot().files) == 2
    path.write_bytes(data)
    assert len(opened.read_snapshot().files) == 3
    assert len(pickle.loads(pickle.dumps(opened)).read_snapshot().files) == 3


def test_a_whole_file_that_was_not_committed(catalog: Any, root: Path, die: Callable[..., Path]) -> None:
    left = die(Died())
    assert ids(root) == [*range(6), 100, 101, 102]  # whether it was committed nobody but the catalog knows
    time.sleep(0.05)
    catalog.load_table("n.t").append(rows(6))
    assert ids(root) == list(range(9))  # what was begun afterwards has not seen it
    catalog.load_table("n.t").append(rows(9))
    os.utime(left)  # whatever the times say, later versions follow the other one
    assert ids(root) == list(range(12))
    latest(root).write_bytes(b"")
    with pytest.raises(ParquetBloomError, match="nothing says which"):  # by these times it may be either
        ids(root)


@pytest.mark.parametrize("missing", ["committed", "other"])
def test_two_that_nothing_tells_apart(catalog: Any, root: Path, die: Callable[..., Path], missing: str) -> None:
    left = die(Died())
    catalog.load_table("n.t").append(rows(6))
    committed = next(path for path in (root / "metadata").glob("00003-*") if path != left)
    for path in (left, committed):  # as after copying the folder
        os.utime(path)
    with pytest.raises(ParquetBloomError, match=r"latest, 00003-.* or 00003-.*: give the path of one, or the catalog"):
        ids(root)
    assert ids(committed) == list(range(9))
    # The one that cannot be the table is not in the way of the other.
    gone = committed if missing == "committed" else left
    snapshot = json.loads(gone.read_bytes())["snapshots"][-1]
    os.unlink(snapshot["manifest-list"].removeprefix("file://"))
    assert ids(root) == ([*range(6), 100, 101, 102] if missing == "committed" else list(range(9)))


@pytest.mark.ci
@pytest.mark.parametrize("change", ["list gone", "list empty", "list cut", "manifest gone", "manifest cut", "all gone"])
def test_a_snapshot_that_is_not_whole(
    catalog: Any, root: Path, die: Callable[..., Path], change: str, caplog: pytest.LogCaptureFixture
) -> None:
    left = die(Died())
    new = json.loads(left.read_bytes())["snapshots"][-1]["manifest-list"].removeprefix("file://")
    manifest = max((root / "metadata").glob("*-m0.avro"), key=os.path.getmtime)
    for path in {"list": [Path(new)], "manifest": [manifest], "all": [Path(new), manifest]}[change.split()[0]]:
        size = {"gone": None, "empty": 0, "cut": path.stat().st_size - 20}[change.split()[1]]
        path.unlink() if size is None else os.truncate(path, size)
    assert ids(root) == list(range(6))
    assert any("is passed over: its manifest" in record.getMessage() for record in caplog.records)
    catalog.load_table("n.t").append(rows(6))
    assert ids(root) == list(range(9))


def test_a_commit_that_lost(catalog: Any, root: Path, die: Callable[..., Path]) -> None:
    """Of a commit that was refused pyiceberg deletes the manifests, and leaves the metadata file."""
    from pyiceberg.exceptions import CommitFailedException

    die(CommitFailedException("another was first"))
    assert ids(root) == list(range(6))
    left = die(
        CommitFailedException("another was first"),
        lambda table: table.transaction().set_properties(a="b").commit_transaction(),
    )
    assert ids(root) == list(range(6))
    catalog.load_table("n.t").append(rows(6))
    os.utime(left, (1, 1))
    assert ids(root) == list(range(9))


def test_what_was_committed_is_not_passed_over(catalog: Any, root: Path, die: Callable[..., Path]) -> None:
    """Another file follows it: a broken one is an error, and no older version is shown."""
    committed = latest(root)
    left = die(Died())
    os.unlink(json.loads(left.read_bytes())["snapshots"][-1]["manifest-list"].removeprefix("file://"))
    assert ids(root) == list(range(6))
    data = committed.read_bytes()
    committed.write_bytes(data[:-1])
    with pytest.raises(StorageError, match=f"{committed.name}: it is cut short"):
        ids(root)
    committed.write_bytes(data)
    os.unlink(json.loads(data)["snapshots"][-1]["manifest-list"].removeprefix("file://"))
    with pytest.raises(StorageError, match="cannot read the Iceberg table"):
        ids(root)


def test_a_version_that_is_not_known_is_not_passed_over(root: Path) -> None:
    path = latest(root)
    (path.parent / "00003-x.metadata.json").write_text(
        json.dumps(json.loads(path.read_bytes()) | {"format-version": 4})
    )
    with pytest.raises(StorageError, match=r"00003-x\.metadata\.json: it is of format version 4"):
        ids(root)


def test_a_current_snapshot_that_the_metadata_lacks(root: Path) -> None:
    """It is not an empty table: its rows would be lost without a word."""
    path = latest(root)
    document = json.loads(path.read_text())
    for refs in ({}, document.get("refs", {})):
        path.write_text(json.dumps(document | {"current-snapshot-id": 4711, "refs": refs}))
        with pytest.raises(StorageError, match="lacks the current snapshot, 4711"):
            ids(root)
    path.write_text(json.dumps(document | {"current-snapshot-id": -1, "refs": {}}))  # as Java writes empty ones
    assert ids(root) == []


def test_a_hint_that_is_not_text(versions: Path) -> None:
    before = ids(versions.parent)
    (versions / "version-hint.text").write_bytes(b"\xff\xfe")
    assert ids(versions.parent) == before


def test_nothing_whole(root: Path) -> None:
    for path in (root / "metadata").glob("*.metadata.json"):
        path.write_bytes(b"")
    with pytest.raises(StorageError, match=r"may be its latest is whole: 00002-.*: it is empty"):
        ids(root)
    with pytest.raises(StorageError, match="cannot read the Iceberg table: it is empty"):
        ids(latest(root))


# ------------------------------------------------------------------------------------- tables without a catalog


@pytest.fixture
def versions(root: Path, tmp_path: Path) -> Path:
    """The folder's metadata as a table without a catalog has it: v1 (no rows), v2 (three), v3 (six)."""
    folder = root / "metadata"
    for number, path in enumerate(sorted(folder.glob("*.metadata.json")), 1):
        document = json.loads(path.read_bytes()) | {"metadata-log": []}
        (folder / f"v{number}.metadata.json").write_text(json.dumps(document))
        path.unlink()
    return folder


@pytest.mark.parametrize("hint", [None, "", " \n", "\0\0", "1", "2", "3\n", "v2"])
def test_commits_after_the_hint(versions: Path, hint: str | None) -> None:
    """A writer renames the metadata file, and is killed before it has written the hint, or while it does."""
    if hint is not None:
        (versions / "version-hint.text").write_text(hint)
    assert ids(versions.parent) == list(range(3 if hint == "v2" else 6))  # a name is taken as it is
    (versions / "v4.metadata.json").write_bytes(b"")
    (versions / f"{'a' * 8}.metadata.json").write_text("{}")  # not renamed yet
    assert ids(versions.parent) == list(range(3 if hint == "v2" else 6))


@pytest.mark.parametrize("hint", ["7", "v9", "x.metadata.json"])
def test_a_hint_of_a_file_that_is_not_there(versions: Path, hint: str, caplog: pytest.LogCaptureFixture) -> None:
    (versions / "version-hint.text").write_text(hint)
    assert ids(versions.parent) == list(range(6))
    assert any("there is no such metadata file" in record.getMessage() for record in caplog.records)


def test_a_hint_that_leads_elsewhere(versions: Path) -> None:
    (versions / "version-hint.text").write_text("../../other")
    with pytest.raises(ParquetBloomError, match="which is not a file in its folder"):
        ids(versions.parent)


def test_a_gap_behind_the_hint(versions: Path) -> None:
    """Versions that do not follow each other are not the table's: readers in Java stop there, too."""
    (versions / "version-hint.text").write_text("1")
    (versions / "v2.metadata.json").unlink()
    assert ids(versions.parent) == []


@pytest.mark.ci
@pytest.mark.parametrize("name", ["v4.gz.metadata.json", "v4.metadata.json.gz", "v4.metadata.json"])
@pytest.mark.parametrize("hint", [None, "3", "4"])
def test_compressed_metadata(versions: Path, name: str, hint: str | None) -> None:
    data = (versions / "v3.metadata.json").read_bytes()
    (versions / "v3.metadata.json").write_bytes((versions / "v2.metadata.json").read_bytes())
    (versions / name).write_bytes(gzip.compress(data))
    if hint is not None:
        (versions / "version-hint.text").write_text(hint)
    assert ids(versions.parent) == ids(versions / name) == list(range(6))
    (versions / name).write_bytes(gzip.compress(data)[:-1])
    if hint == "4":  # which says that it was committed
        with pytest.raises(StorageError, match=r"may be its latest is whole: v4\..*: it is cut short or damaged"):
            ids(versions.parent)
    else:
        assert ids(versions.parent) == list(range(3))
    with pytest.raises(StorageError, match="it is cut short or damaged"):
        ids(versions / name)


def test_a_catalog_that_took_a_table_over(catalog: Any, versions: Path) -> None:
    """It counts anew, and leaves the hint as it is."""
    (versions / "version-hint.text").write_text("3")
    catalog.drop_table("n.t")
    taken = catalog.register_table("n.t", f"file://{versions}/v3.metadata.json")
    assert ids(versions.parent) == list(range(6))
    taken.append(rows(6))
    assert [path.name[:6] for path in versions.glob("0*.json")] == ["00000-"]
    assert ids(versions.parent) == ids("n.t", catalog=catalog) == list(range(9))
    taken.append(rows(9))
    assert ids(versions.parent) == list(range(12))


def test_a_hint_by_name_is_followed(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = sorted(path.name for path in (root / "metadata").glob("*.metadata.json"))
    (root / "metadata" / "version-hint.text").write_text(names[1].removesuffix(".metadata.json"))
    assert ids(root) == list(range(3))
    assert any(f"{names[2]} is not, though it has a higher number" in one.getMessage() for one in caplog.records)


# ------------------------------------------------------------------------------------------------------ the rule


@pytest.mark.parametrize(
    ("modified", "begun", "chosen"),
    [
        ((1_000_000_000_123, 2_000_000_000_123), (900_000, 1_000_000), None),  # in the same moment
        ((1_000_000_000_123, 2_000_000_000_123), (900_000, 1_000_021), 1),
        ((1_000_000_000_123, 2_000_000_000_123), (900_000, 1_000_019), None),  # within a tick of the clock
        ((1_000_000_000_000, 2_000_000_000_000), (900_000, 1_000_900), None),  # a store that counts in seconds
        ((1_000_000_000_000, 2_000_000_000_000), (900_000, 1_001_001), 1),
        ((None, 2_000_000_000_000), (900_000, 5_000_000), None),
        ((9_000_000_000_123, 9_000_000_000_123), (900_000, 1_001_001), None),  # copied
    ],
)
def test_which_of_two(modified: tuple[Any, Any], begun: tuple[int, int], chosen: int | None) -> None:
    from types import SimpleNamespace as Made

    candidates = [
        MetadataCandidate(ListedFile(name, time), Made(table=Made(metadata=Made(last_updated_ms=moment))))
        for name, time, moment in zip("ab", modified, begun, strict=True)
    ]
    expected = None if chosen is None else candidates[chosen]
    assert choose_among(candidates, ()) is expected
    assert choose_among(candidates[::-1], ()) is expected
    assert choose_among(candidates, {"a"}) is candidates[0]
    assert choose_among(candidates, {"a", "b"}) is expected


@pytest.fixture(autouse=True)
def _shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

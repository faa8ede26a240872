"""Logs in which writers that died have left files: each is read as deltalake reads it, or refused with the way out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.tables.delta.delta_table import delta

deltalake = pytest.importorskip("deltalake")

ROWS = 10
UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.fixture(params=["plain", "vectors"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The log of a table of four commits, with a checkpoint of the third; with vectors the log is read by us, too."""
    root = str(tmp_path / "table")
    settings = {"delta.enableDeletionVectors": "true"} if request.param == "vectors" else None
    for number in range(4):
        rows = pa.table({"id": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())})
        deltalake.write_deltalake(root, rows, mode="append", configuration=settings)
        if number == 2:
            deltalake.DeltaTable(root).create_checkpoint()
    return tmp_path / "table" / "_delta_log"


def version(number: int, suffix: str = "json") -> str:
    return f"{number:020}.{suffix}"


def count(log: Path) -> int:
    return int(parquet_bloom.dataset(delta(log.parent)).count_rows())


def write(name: str, content: bytes = b"") -> Callable[[Path], None]:
    def change(log: Path) -> None:
        (log / name).parent.mkdir(exist_ok=True)
        (log / name).write_bytes(content)

    return change


def cut(name: str, part: float) -> Callable[[Path], None]:
    return lambda log: os.truncate(log / name, int(os.path.getsize(log / name) * part))


def without_hint(change: Callable[[Path], None]) -> Callable[[Path], None]:
    def run(log: Path) -> None:
        (log / "_last_checkpoint").unlink()
        change(log)

    return run


CHECKPOINT = version(2, "checkpoint.parquet")
PART = "checkpoint.0000000001.0000000002.parquet"

PASSED_OVER = {
    "temporary": write(version(4, "json.tmp")),
    "Hadoop's temporary": write(f".{version(4)}.{UUID}.tmp", b"{"),
    "object_store's temporary": write(f"{version(4)}#1", b"{"),
    "delta-rs's temporary": write(f"_commit_{UUID}.json.tmp", b"{"),
    "staged": write(f"_staged_commits/{version(4, UUID + '.json')}"),
    "sidecar": write("_sidecars/x.parquet"),
    "checksum of Hadoop": write(f".{version(3)}.crc", b"x"),
    "compacted": write(f"{1:020}.{version(3, 'compacted.json')}"),
    "empty checkpoint": without_hint(cut(CHECKPOINT, 0)),
    "empty checkpoint of version 2": write(version(3, f"checkpoint.{UUID}.json")),
    "empty Parquet checkpoint of version 2": write(version(3, f"checkpoint.{UUID}.parquet")),
    "half a checkpoint": without_hint(lambda log: os.rename(log / CHECKPOINT, log / version(2, PART))),
    "half an empty checkpoint": write(version(3, PART)),
    "empty hint": write("_last_checkpoint"),
    "cut hint": write("_last_checkpoint", b'{"vers'),
    "hint of something else": write("_last_checkpoint", b"[]"),
}

STALE_HINT = {
    "gone": lambda log: (log / CHECKPOINT).unlink(),
    "empty": cut(CHECKPOINT, 0),
    "half": lambda log: os.rename(log / CHECKPOINT, log / version(2, PART)),
    "later": write("_last_checkpoint", b'{"version":9,"size":4}'),
}


@pytest.mark.ci
@pytest.mark.parametrize("change", PASSED_OVER)
def test_files_that_are_passed_over(log: Path, change: str) -> None:
    PASSED_OVER[change](log)
    assert deltalake.DeltaTable(log.parent).version() == 3
    assert count(log) == 4 * ROWS
    assert len(parquet_bloom.embed_table(str(log.parent), ["id"]).files) == 4
    assert count(log) == 4 * ROWS


def test_an_empty_commit_is_a_version(log: Path) -> None:
    """As deltalake takes it: the next writer commits after it."""
    write(version(4))(log)
    assert deltalake.DeltaTable(log.parent).version() == delta(log.parent).read_snapshot().version == 4
    assert parquet_bloom.embed_table(str(log.parent), ["id"]).new_version == 5
    assert count(log) == 4 * ROWS


@pytest.mark.ci
@pytest.mark.parametrize("change", STALE_HINT)
def test_a_hint_of_a_checkpoint_that_is_not_there(log: Path, change: str, caplog: pytest.LogCaptureFixture) -> None:
    """Deltalake gives up at it; the commits say the same."""
    STALE_HINT[change](log)
    with pytest.raises(Exception, match="hint"):
        deltalake.DeltaTable(log.parent)
    opened = delta(log.parent)
    for _ in range(2):
        assert (opened.read_snapshot().version, len(opened.read_snapshot().files)) == (3, 4)
    assert any("_last_checkpoint names a checkpoint of version" in record.getMessage() for record in caplog.records)
    assert count(log) == 4 * ROWS
    problem = r"_last_checkpoint names a checkpoint of version \d, .*: delete that file"
    with pytest.raises(StorageError, match=problem):
        parquet_bloom.embed_table(str(log.parent), ["id"])
    if change != "later":
        with pytest.raises(StorageError, match=problem):
            delta(log.parent, version=3).read_snapshot()
    assert len(delta(log.parent, version=1).read_snapshot().files) == 2
    (log / version(0)).unlink()
    if change == "later":  # the checkpoint before it is whole
        assert count(log) == 4 * ROWS
    else:
        with pytest.raises(StorageError, match="commit 0 is missing in its log, and no checkpoint replaces it"):
            delta(log.parent).read_snapshot()


@pytest.mark.ci
@pytest.mark.parametrize("part", [0.05, 0.3, 0.6, 0.9])
def test_a_commit_that_was_cut_short(log: Path, part: float) -> None:
    """It has its number, so that it may have been committed: the file is named, and no older version is shown."""
    (log / version(4)).write_bytes((log / version(3)).read_bytes())
    cut(version(4), part)(log)
    problem = rf"{version(4)}: the table's log cannot be understood: line \d is not JSON.*: delete the file if"
    for read in (lambda: count(log), lambda: parquet_bloom.embed_table(str(log.parent), ["id"])):
        with pytest.raises(ParquetBloomError, match=problem) as caught:
            read()
        assert "\n" not in str(caught.value)
    assert len(delta(log.parent, version=3).read_snapshot().files) == 4
    (log / version(4)).unlink()
    assert count(log) == 4 * ROWS


@pytest.mark.parametrize("is_needed", [True, False])
def test_a_checkpoint_that_was_cut_short(log: Path, is_needed: bool) -> None:
    cut(CHECKPOINT, 0.5)(log)
    if is_needed:
        (log / version(1)).unlink()
    way_out = "restore it" if is_needed else "delete it and _last_checkpoint, as the log has all that was before it"
    for read in (lambda: count(log), lambda: parquet_bloom.embed_table(str(log.parent), ["id"])):
        with pytest.raises(StorageError, match=f"{CHECKPOINT}: cannot read the checkpoint: .*: {way_out}"):
            read()
    if not is_needed:
        (log / CHECKPOINT).unlink()
        (log / "_last_checkpoint").unlink()
        assert count(log) == 4 * ROWS


def test_a_sidecar_that_is_gone(log: Path) -> None:
    adds = [json.loads(line) for number in range(4) for line in (log / version(number)).read_text().splitlines()]
    head = [action for action in adds if "protocol" in action or "metaData" in action][:2]
    head[0]["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7}
    head[0]["protocol"] |= {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
    (log / version(0)).write_text("\n".join(map(json.dumps, [*head, *(a for a in adds if "add" in a)])))
    checkpoint = [{"checkpointMetadata": {"version": 3}}, *head]
    checkpoint.append({"sidecar": {"path": "x.parquet", "sizeInBytes": 9, "modificationTime": 0}})
    name = version(3, f"checkpoint.{UUID}.json")
    (log / name).write_text("\n".join(map(json.dumps, checkpoint)))
    with pytest.raises(StorageError, match=r"x\.parquet.*: delete it and _last_checkpoint"):
        count(log)
    (log / name).unlink()
    assert count(log) == 7 * ROWS - 3 * ROWS


def test_a_gap(log: Path) -> None:
    (log / version(5)).write_bytes((log / version(3)).read_bytes())
    with pytest.raises(StorageError, match="commit 4 is missing in its log, and no checkpoint replaces it"):
        count(log)


def test_a_checksum_of_a_later_version(log: Path) -> None:
    write(version(4, "crc"), b"{")(log)
    with pytest.raises(StorageError, match=rf"{version(4, 'crc')} is of a version that its log does not have: delete"):
        count(log)


def test_other_errors_are_deltalake_s(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(StorageError, match="cannot read the Delta table"):
        delta(tmp_path).read_snapshot()

"""Delta tables in object stores: the same rows as before, whatever another writer does between any two requests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers import changing_tables as tables
from support.writers import delta_log

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.storage.index_folder import Folder
from parquet_bloom.tables.embed.embed_table import embed_table

deltalake = pytest.importorskip("deltalake")

LOG = "t/_delta_log/{:020}.json"


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """A table of six files in partitions, by the keys of its objects."""
    root = Path(tables.make_delta(tmp_path_factory.mktemp("delta") / "t", 1))
    deltalake.write_deltalake(root, tables.rows(500, 1), mode="append", partition_by=["p"])
    return {f"t/{path.relative_to(root)}": path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def table(s3: Any, objects: Mapping[str, bytes]) -> Any:
    for key, data in objects.items():
        s3.put(key, data)
    return parquet_bloom.delta(s3.url("t"), storage_options=s3.storage_options)


def read(s3: Any, version: int | None = None) -> Counter[Any]:
    """Return the rows by deltalake."""
    options = {name: str(value) for name, value in s3.storage_options.items()}
    return tables.contents(pa.table(deltalake.DeltaTable(s3.url("t"), version, storage_options=options).scan()))


def keys_of(s3: Any) -> set[str]:
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket=s3.bucket)
    return {item["Key"] for page in pages for item in page.get("Contents", ())}


def actions(s3: Any, version: int) -> list[dict[str, Any]]:
    content = s3.get(LOG.format(version))
    return [] if content is None else [json.loads(line) for line in content.splitlines()]


def test_same_rows_and_one_commit(s3: Any, table: Any) -> None:
    before, keys = read(s3), keys_of(s3)
    report = embed_table(table, ["id", "s"])
    assert (len(report.files), report.skipped, report.old_version, report.new_version) == (6, (), 1, 2)
    assert read(s3) == read(s3, 1) == before
    new = {file.new.removeprefix(s3.url("")) for file in report.files}
    assert keys_of(s3) == keys | new | {LOG.format(2)}
    for number in (0, 57, 500):
        found = parquet_bloom.read_table(table, f"id = {number}")
        assert found["id"].to_pylist() == [number]
    plan = parquet_bloom.prune(table, "s = 'v7a'")
    assert plan.skipped_by["filter"]
    again = embed_table(s3.url("t"), ["id"], storage_options=s3.storage_options)
    assert (again.changed, again.num_complete) == (False, 6)


class Other(NamedTuple):
    """What another writer commits: its actions for the live files, and what it does to the rows."""

    make: Callable[[Any, list[dict[str, Any]]], list[dict[str, Any]]]
    changes: Callable[[Counter[Any]], Counter[Any]]


def append(s3: Any, live: list[dict[str, Any]]) -> list[dict[str, Any]]:
    sink = pa.BufferOutputStream()
    pq.write_table(tables.rows(900, 5).drop_columns(["p"]), sink)
    data = sink.getvalue().to_pybytes()
    s3.put("t/other.parquet", data)
    return [delta_log.add("other.parquet", len(data), partitionValues={"p": None})]


def find_file(live: list[dict[str, Any]]) -> dict[str, Any]:
    return next(add for add in live if "p=x%252Fy" in add["path"])


def delete_file(s3: Any, live: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [delta_log.remove(find_file(live)["path"])]


def set_domain(s3: Any, live: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"txn": {"appId": "other", "version": 1}}]


APPENDED = tables.rows(900, 5)
OTHERS = {
    "append": Other(
        append,
        lambda before: before + Counter((i, s, None) for i, s, _ in tables.contents(APPENDED)),
    ),
    "delete": Other(delete_file, tables.kept(lambda row: row[2] != "x/y")),
    "transaction": Other(set_domain, tables.same),
}


def commit(s3: Any, other: Other) -> int | None:
    """Commit as another writer does, with the server's lock; return the version, None if it came too late."""
    live: dict[str, dict[str, Any]] = {}
    version = 0
    while lines := actions(s3, version):
        for line in lines:
            if "remove" in line:
                live.pop(line["remove"]["path"])
            if "add" in line:
                live[line["add"]["path"]] = line["add"]
        version += 1
    content = "".join(json.dumps(action) + "\n" for action in other.make(s3, list(live.values())))
    s3.put(LOG.format(version), content.encode())
    return version


def check(s3: Any, table: Any, expected: Counter[Any]) -> None:
    """Check rows by two readers, that each file of the log is there, and that a second run ends the work."""
    assert read(s3) == expected
    assert tables.contents(parquet_bloom.read_table(table, "id >= 0")) == expected
    embed_table(table, ["id"])
    assert read(s3) == expected
    assert not embed_table(table, ["id"]).changed


EACH = pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.long), 13])


@pytest.mark.ci
@pytest.mark.parametrize("name", OTHERS)
@EACH
def test_another_writer_between_any_two_requests(s3: Any, objects: Mapping[str, bytes], name: str, stride: int) -> None:
    other, before = OTHERS[name], None
    for step in count(0, stride):
        for key in keys_of(s3):
            s3.delete(key)
        for key, data in objects.items():
            s3.put(key, data)
        table = parquet_bloom.delta(s3.url("t"), storage_options=s3.storage_options)
        before = before or read(s3)
        versions: list[int | None] = []
        fault = s3.before(None, lambda request, versions=versions: versions.append(commit(s3, other)), skip=step)
        report = embed_table(table, ["id"], threads=1)
        fault.times = 0
        expected = other.changes(before) if versions else before
        committed = [version for version in range(2, 5) if any("remove" in action for action in actions(s3, version))]
        assert len(committed) == bool(report.files) + (name == "delete" and bool(versions)), step
        check(s3, table, expected)
        if not versions:  # there are no more requests
            break


@pytest.mark.ci
def test_a_vacuum_takes_the_new_files(s3: Any, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """That they are gone is noticed before the commit, which is tried again with other files."""
    before, keys, create, taken = read(s3), keys_of(s3), Folder.create, list[str]()

    def interfere(self: Folder, name: str, new: bool = False) -> Any:
        if name == LOG.format(2).rpartition("/")[2] and not taken:
            taken.extend(keys_of(s3) - keys)
            for key in taken:
                s3.delete(key)
        return create(self, name, new)

    monkeypatch.setattr(Folder, "create", interfere)
    assert parquet_bloom.delete(table, [5, 57], "id").attempts == 2
    assert len(taken) == 2
    check(s3, table, tables.kept(lambda row: row[0] not in (5, 57))(before))


MOMENTS = {
    "refused": (lambda s3, which: s3.fail("PutObject", status=403, code="AccessDenied", **which), False),
    "lost before": (lambda s3, which: s3.lose_request("PutObject", **which), True),
    "lost after": (lambda s3, which: s3.lose_answer("PutObject", **which), True),
    "busy": (lambda s3, which: s3.fail("PutObject", times=2, **which), True),
}


@pytest.mark.ci
@pytest.mark.parametrize("name", MOMENTS)
def test_commit_whose_request_or_answer_is_lost(s3: Any, table: Any, name: str) -> None:
    before, keys = read(s3), keys_of(s3)
    disturb, is_done = MOMENTS[name]
    disturb(s3, {"when": lambda request: request.key == LOG.format(2)})
    if is_done:
        report = embed_table(table, ["id"])
        assert (len(report.files), report.new_version) == (6, 2)
    else:
        with pytest.raises(StorageError, match=r"cannot commit to the Delta table: .* access denied"):
            embed_table(table, ["id"])
        assert keys_of(s3) == keys
    check(s3, table, before)


@pytest.mark.ci
def test_commit_without_any_answer_keeps_the_new_files(s3: Any, table: Any) -> None:
    """A request that timed out may be carried out later: its files must be there then."""
    before, keys = read(s3), keys_of(s3)
    options = {**s3.storage_options, "timeout": "1s", "max_retries": "0"}
    slow = parquet_bloom.delta(s3.url("t"), storage_options=options)
    fault = s3.hang("PutObject", when=lambda request: request.key == LOG.format(2))
    with pytest.raises(ParquetBloomError, match=r"not known whether the commit succeeded .* 6 new files were kept"):
        embed_table(slow, ["id"])
    fault.times = 0
    assert len(keys_of(s3) - keys) == 6
    check(s3, table, before)


@pytest.mark.ci
def test_interrupt_while_the_commit_is_on_its_way(s3: Any, table: Any) -> None:
    """The store carries the request out all the same: the new files are the table's."""
    before = read(s3)

    def interrupt(request: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(2)

    s3.before("PutObject", interrupt, when=lambda request: request.key == LOG.format(2))
    with pytest.raises(KeyboardInterrupt):
        embed_table(table, ["id"])
    deadline = time.monotonic() + 60
    while s3.get(LOG.format(2)) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert actions(s3, 2)
    check(s3, table, before)


@pytest.mark.ci
def test_store_that_creates_objects_over_others_is_refused(s3: Any, table: Any) -> None:
    keys = keys_of(s3)
    s3.conditions(ignored=["If-None-Match"])
    with pytest.raises(StorageError, match="the store overwrites objects that are only to be created"):
        embed_table(table, ["id"])
    s3.conditions()
    assert keys_of(s3) == keys


PROGRAM = """
import json, sys, parquet_bloom
url, options = sys.argv[1], json.loads(sys.argv[2])
parquet_bloom.embed_table(url, ["id"], storage_options=options, threads=1)
"""


@pytest.mark.ci
@EACH
def test_kill_at_any_request(s3: Any, objects: Mapping[str, bytes], stride: int) -> None:
    before = None
    for step in count(0, stride):
        for key in keys_of(s3):
            s3.delete(key)
        for key, data in objects.items():
            s3.put(key, data)
        before = before or read(s3)
        command = [sys.executable, "-c", PROGRAM, s3.url("t"), json.dumps(s3.storage_options)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        running: list[subprocess.Popen[bytes]] = []
        fault = s3.before(None, lambda request, running=running: running[0].send_signal(signal.SIGKILL), skip=step)
        running.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE))
        _, errors = running[0].communicate(timeout=120)
        fault.times = 0
        assert running[0].returncode == (-signal.SIGKILL if fault.happened else 0), errors.decode()
        table = parquet_bloom.delta(s3.url("t"), storage_options=s3.storage_options)
        check(s3, table, before)
        if not fault.happened:
            break


@pytest.mark.ci
def test_paths_of_a_table_are_quoted_in_its_log(s3: Any, table: Any) -> None:
    embed_table(table, ["id"])
    added = [action["add"]["path"] for action in actions(s3, 2) if "add" in action]
    assert {unquote(path).rpartition("/")[0] for path in added} == {
        unquote(action["add"]["path"]).rpartition("/")[0]
        for version in (0, 1)
        for action in actions(s3, version)
        if "add" in action
    }


def test_table_whose_writers_take_a_lock_is_refused(s3: Any, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = keys_of(s3)
    options = {**s3.storage_options, "AWS_S3_LOCKING_PROVIDER": "dynamodb", "AWS_ENDPOINT_URL_DYNAMODB": "http://db"}
    locked = parquet_bloom.delta(s3.url("t"), storage_options=options)
    with pytest.raises(ParquetBloomError, match=r"take a lock for each commit \(AWS_S3_LOCKING_PROVIDER\)"):
        embed_table(locked, ["id"])
    assert parquet_bloom.read_table(locked, "id = 5").num_rows == 1
    monkeypatch.setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
    with pytest.raises(ParquetBloomError, match="take a lock for each commit"):
        embed_table(table, ["id"])
    assert keys_of(s3) == keys

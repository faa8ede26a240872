"""Iceberg tables in object stores, by their catalogs: the same rows, whatever others do between any two requests."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.servers.iceberg_store import NAME, IcebergStore
from support.writers import changing_tables as tables
from support.writers.iceberg_tables import HandTable, find_row_ids

import parquet_bloom
from parquet_bloom.errors import ConcurrentChangeError, ParquetBloomError, StorageError
from parquet_bloom.tables.embed import exchange_iceberg
from parquet_bloom.tables.embed.embed_table import embed_table

catalogs = pytest.importorskip("pyiceberg.catalog")
sql = pytest.importorskip("pyiceberg.catalog.sql")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(exchange_iceberg, "_PAUSE", 0.01)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Parquet writer option")
        yield


@pytest.fixture
def store(s3: Any, tmp_path: Path) -> Iterator[IcebergStore]:
    made = IcebergStore(s3, tmp_path)
    made.create()
    yield made
    made.server.close()


@pytest.mark.parametrize("kind", ["sql", "rest"])
def test_same_rows_and_one_snapshot(store: IcebergStore, kind: str) -> None:
    before, keys, catalog = store.read(), store.keys(), store.open(kind)
    report = embed_table(NAME, ["id", "s"], catalog=catalog)
    assert (len(report.files), report.skipped, report.attempts) == (5, (), 1)
    assert (store.read(), store.count_replacing()) == (before, 1)
    data = {file.new.removeprefix(store.s3.url("")) for file in report.files}
    metadata = store.keys() - keys - data
    assert data <= store.keys()
    assert sorted(key.rpartition(".")[2] for key in metadata) == ["avro", "avro", "json"]
    plan = parquet_bloom.prune(parquet_bloom.iceberg(NAME, catalog=catalog), "s = 'v7a'")
    assert plan.skipped_by["filter"]
    verified = parquet_bloom.verify(parquet_bloom.iceberg(NAME, catalog=catalog), data=True)
    assert (len(verified.chunks), verified.problems) == (10, [])
    store.check(before)


@pytest.mark.ci
def test_glue(s3: Any, tmp_path: Path) -> None:
    """Another writer's commit, and requests that fail or whose answers are lost."""
    from support.servers.s3_server import make_glue_refusal

    made = IcebergStore(s3, tmp_path)
    made.server.close()
    name, is_update = f"db{s3.bucket[-6:]}.events", lambda one: one.headers.get("x-amz-target") == "AWSGlue.UpdateTable"
    catalog = made.open("glue")
    catalog.create_namespace(name.partition(".")[0])
    catalog.create_table(name, tables.rows(0).schema)
    expected: Counter[Any] = Counter()

    def append(start: int) -> None:
        made.open("glue").load_table(name).append(tables.rows(start))
        expected.update(tables.contents(tables.rows(start)))

    append(0)
    s3.before("POST", lambda request: append(100), when=is_update)
    report = embed_table(name, ["id"], catalog=catalog)
    assert (len(report.files), report.attempts) == (1, 2)
    for number, disturb in enumerate(
        (
            lambda: s3.lose_request("POST", when=is_update),
            lambda: s3.lose_answer("POST", when=is_update),
            lambda: s3.fail("POST", times=4, raw=b"{}", when=is_update),
        ),
        2,
    ):
        append(100 * number)
        disturb()
        report = embed_table(name, ["id"], catalog=catalog)
        assert (bool(report.files), report.attempts) == (True, 1)
        assert tables.contents(catalog.load_table(name).scan().to_arrow()) == expected
    before = made.keys()

    def refuse(request: Any) -> None:
        raise make_glue_refusal("AccessDeniedException")

    s3.before("POST", refuse, when=is_update)
    with pytest.raises(StorageError, match=r"cannot commit to the Iceberg table: .*AccessDenied"):
        embed_table(name, ["s"], catalog=catalog)
    assert made.keys() == before
    # Each metadata file is one of the table's: those of requests that were repeated are gone.
    table = catalog.load_table(name)
    log = {entry.metadata_file for entry in table.metadata.metadata_log} | {table.metadata_location}
    assert {s3.url(key) for key in before if key.endswith(".json")} == log
    assert tables.contents(table.scan().to_arrow()) == expected
    assert not embed_table(table.location(), ["id"], catalog=catalog).changed


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["rest", *(pytest.param(kind, marks=pytest.mark.ci) for kind in ("sql", "glue"))])
def test_version_3(s3: Any, tmp_path: Path, kind: str) -> None:
    """Deletes of each kind, and a column that some files lack: the same rows with the same ids."""
    ids = pa.table({"id": pa.array(range(40), pa.int64())})
    fields = [{"id": 1, "name": "id", "required": False, "type": "long"}]
    fields.append({"id": 2, "name": "n", "required": False, "type": "long", "initial-default": 5})
    hand = HandTable(tmp_path / "t", [fields], version=3, scheme=f"s3://{s3.bucket}")
    files = [hand.write_file(ids.slice(start, 10), {"id": 1}) for start in (0, 10, 20)]
    files.append(hand.write_file(ids.slice(30).append_column("n", [list(range(10))]), {"id": 1, "n": 2}))
    deletes = [
        *hand.write_vectors({files[0].path: [0, 5]}),
        hand.write_positions([(files[1].path, 3)]),
        hand.write_equality(pa.table({"n": [7]}), {"n": 2}, sequence=50),
    ]
    hand.add_snapshot([*files, *deletes], first_row=1000)
    metadata = hand.write_metadata()
    for path in hand.root.rglob("*.*"):
        s3.put(str(path).lstrip("/"), path.read_bytes())
    made = IcebergStore(s3, tmp_path)
    namespace = f"db{s3.bucket[-6:]}"
    name, behind = f"{namespace}.v3", made.open("glue" if kind == "glue" else "sql")
    behind.create_namespace(namespace)
    table = behind.register_table(name, f"s3://{s3.bucket}{metadata}")
    before = find_row_ids(table)

    def read() -> list[Any]:
        found = parquet_bloom.dataset(parquet_bloom.iceberg(name, catalog=made.open(kind))).scan().to_arrow()
        return sorted(found.to_pylist(), key=lambda row: row["id"])

    rows = read()
    assert [row["id"] for row in rows] == [number for number in range(40) if number not in (0, 5, 13, 37)]
    report = embed_table(name, ["id"], catalog=made.open(kind))
    assert (len(report.files), report.skipped, report.attempts) == (4, (), 1)
    after = made.open(kind).load_table(name)
    assert (read(), find_row_ids(after)) == (rows, before)
    assert after.current_snapshot().snapshot_id == report.new_version
    assert (after.metadata.format_version, after.metadata.next_row_id) == (3, table.metadata.next_row_id)
    assert parquet_bloom.prune(parquet_bloom.iceberg(name, catalog=made.open(kind)), "id = 7").skipped_by
    assert not embed_table(name, ["id"], catalog=made.open(kind)).changed
    made.server.close()


STEPS = 100  # more than there are requests of one run

OTHERS = ["append", "delete", "delete a partition", "set a property"]
USUAL = [("sql", "append"), ("rest", "delete")]
KINDS = ("sql", "rest", "glue")


@pytest.fixture(scope="module")
def other_process() -> Iterator[ProcessPoolExecutor]:
    """Where another writer works: in this one pyarrow has it wait for the request that waits for it."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=[] if (kind, name) in USUAL else pytest.mark.ci)
        for kind in KINDS
        for name in OTHERS
    ],
)
@pytest.mark.parametrize(
    "steps",
    [[3, 47, 63, 70], pytest.param(range(STEPS), marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_another_writer_between_any_two_requests(
    store: IcebergStore, other_process: ProcessPoolExecutor, kind: str, name: str, steps: Any
) -> None:
    before, changes = store.read(), tables.ICEBERG_OPERATIONS[name].changes
    if kind == "glue":
        store.move_to_glue()
    settings = getattr(store, store.home)
    for step in steps:
        store.restore()
        done = store.at_request(
            step, lambda: other_process.submit(tables.change_iceberg, settings, NAME, name).result()
        )
        report = embed_table(NAME, ["id"], catalog=store.open(kind), threads=1)
        store.calm()
        assert store.count_replacing() == bool(report.files), step
        assert store.load().properties.get("other") == ("1" if done and name == "set a property" else None)
        store.check(changes(before) if done else before)
        if step == steps[-1] and len(steps) == STEPS:
            assert not done  # all steps were reached


PROGRAM = """
import json, sys, parquet_bloom
from pyiceberg.catalog import load_catalog
catalog = load_catalog("catalog", **json.loads(sys.argv[1]))
parquet_bloom.embed_table("db.events", ["id"], catalog=catalog, threads=1)
"""


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["sql", *(pytest.param(kind, marks=pytest.mark.ci) for kind in KINDS[1:])])
@pytest.mark.parametrize(
    "steps",
    [[40, 65], pytest.param(range(1, STEPS, 3), marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_kill_at_any_request(store: IcebergStore, kind: str, steps: Any) -> None:
    before = store.read()
    if kind == "glue":
        store.move_to_glue()
    for step in steps:
        store.restore()
        command = [sys.executable, "-c", PROGRAM, json.dumps(getattr(store, kind))]
        running: list[subprocess.Popen[bytes]] = []
        killed = store.at_request(step, lambda running=running: running[0].send_signal(signal.SIGKILL))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        running.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE))
        _, errors = running[0].communicate(timeout=300)
        store.calm()
        assert running[0].returncode == (-signal.SIGKILL if killed else 0), errors.decode()
        assert store.count_replacing() <= 1
        store.check(before)
        assert store.count_replacing() == 1


# ------------------------------------------------------------------------------------- what a catalog's server answers


def refuse(status: int, kind: str, times: int = 1) -> Callable[[Any], None]:
    from support.servers.iceberg_rest import RestRefusal

    left = [times]

    def act(request: Any) -> None:
        if request.operation == "commit" and left[0]:
            left[0] -= 1
            if not status:
                raise ConnectionResetError("cut")
            raise RestRefusal(status, kind)

    return act


@pytest.mark.ci
@pytest.mark.parametrize(
    ("status", "when"),
    [
        *((0, "after"), (500, "after"), (408, "before"), (503, "before")),
        *(pytest.param(status, "after", marks=pytest.mark.ci) for status in (408, 502, 503, 504)),
        *(pytest.param(status, "before", marks=pytest.mark.ci) for status in (0, 500, 502, 504)),
    ],
)
def test_an_answer_that_leaves_it_open(store: IcebergStore, status: int, when: str) -> None:
    """The request is sent again; if the first one was carried out, the second one is refused."""
    before, keys = store.read(), store.keys()
    setattr(store.server, when, refuse(status, "SomeException", 2 if when == "before" else 1))
    report = embed_table(NAME, ["id"], catalog=store.open("rest"))
    assert (len(report.files), report.attempts, store.count_replacing()) == (5, 1, 1)
    assert report.new_version == store.load().current_snapshot().snapshot_id
    assert len(store.keys() - keys) == 5 + 3  # manifest, list of manifests, metadata
    store.check(before)


@pytest.mark.ci
def test_busy_servers_are_asked_again(store: IcebergStore) -> None:
    store.server.before = refuse(429, "TooManyRequestsException", 2)
    assert len(embed_table(NAME, ["id"], catalog=store.open("rest")).files) == 5


@pytest.mark.ci
@pytest.mark.parametrize(
    ("status", "kind", "error", "text"),
    [
        (403, "ForbiddenException", StorageError, "cannot commit to the Iceberg table: ForbiddenException"),
        (400, "BadRequestException", StorageError, "cannot commit to the Iceberg table: BadRequestException"),
        (404, "NoSuchTableException", StorageError, "cannot commit to the Iceberg table: NoSuchTableException"),
        (501, "NotImplementedException", StorageError, "cannot commit to the Iceberg table: NotImplementedException"),
        (409, "CommitFailedException", ConcurrentChangeError, "during each of 2 attempts; nothing was changed"),
    ],
)
def test_an_answer_that_refuses_leaves_nothing(
    store: IcebergStore, status: int, kind: str, error: Any, text: str
) -> None:
    before, keys = store.read(), store.keys()
    store.server.before = refuse(status, kind, 99)
    with pytest.raises(error, match=text) as caught:
        embed_table(NAME, ["id"], catalog=store.open("rest"), retries=1)
    assert "\n" not in str(caught.value)
    assert (store.read(), store.keys()) == (before, keys)


@pytest.mark.ci
def test_while_it_is_open_the_new_files_are_kept(store: IcebergStore) -> None:
    """The request may be carried out later: what it names must be there then."""
    before, keys, late = store.read(), store.keys(), []
    answer = store.server.answer

    def lose(method: str, target: str, body: bytes) -> dict[str, Any]:
        if method == "POST":
            late.append((method, target, body))
            raise ConnectionResetError("cut")
        return answer(method, target, body)

    store.server.answer = lose  # type: ignore[method-assign]
    with pytest.raises(ParquetBloomError, match=r"not known whether the commit succeeded .* 5 new files were kept"):
        embed_table(NAME, ["id"], catalog=store.open("rest"))
    assert len(store.keys() - keys) == 5 + 2
    assert len(late) == 4
    answer(*late[0])
    assert store.count_replacing() == 1
    for one in late[1:]:
        with pytest.raises(Exception, match="has changed"):
            answer(*one)
    store.check(before)
    assert store.count_replacing() == 1


# ------------------------------------------------------------------------------------------ stores, names and places


@pytest.mark.ci
def test_large_files_are_copied_by_the_store(store: IcebergStore) -> None:
    """Only the columns that get filters are downloaded."""
    count = 1_500_000
    wide = np.random.default_rng(7).integers(0, 1 << 60, count)
    rows = pa.table({"id": pa.array(range(count), pa.int64()), "wide": wide})
    table = store.open("sql").create_table(
        "db.large", rows.schema, properties={"write.parquet.row-group-limit": "400000"}
    )
    table.append(rows)
    (file,) = table.scan().plan_files()
    size = file.file.file_size_in_bytes
    store.s3.clear_log()
    report = embed_table("db.large", ["id"], catalog=store.open("sql"))
    requests = [request for request in store.s3.log if request.key.endswith(".parquet")]
    assert sum(request.sent for request in requests) < size / 4
    assert sum(request.received for request in requests if request.operation == "GetObject") < size * 0.7
    assert report.files[0].new_size > size
    assert store.open("sql").load_table("db.large").scan().to_arrow().equals(rows)


@pytest.mark.ci
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_location_of_either_scheme_is_found(store: IcebergStore, scheme: str) -> None:
    location = store.s3.url("there/events.v2").replace("s3:", f"{scheme}:")
    for name in ("db.other", "db.later"):
        made = store.open("sql").create_table(name, tables.rows(0).schema, location=f"{location}-{name}")
        made.append(tables.rows(0))
    for given in (f"s3://{store.s3.bucket}/there/events.v2-db.later/", made.metadata_location):
        report = embed_table(given, ["id"], catalog=store.open("rest"))
        assert report.table == "db.later"
    assert (report.changed, report.num_complete) == (False, 1)
    assert store.count_replacing() == 0  # in the other table


@pytest.mark.ci
def test_settings_of_the_caller_are_for_data_files(store: IcebergStore) -> None:
    nowhere = {**store.s3.storage_options, "aws_endpoint": "http://127.0.0.1:1", "max_retries": "0"}
    for given in (store.open("sql"), None):
        table = NAME if given else store.load()
        report = embed_table(table, ["id"], catalog=given, storage_options=nowhere)
        assert (report.changed, {"cannot open" in one.reason for one in report.skipped}) == (False, {True})
    assert (
        len(embed_table(NAME, ["id"], catalog=store.open("sql"), storage_options=store.s3.storage_options).files) == 5
    )


@pytest.mark.ci
def test_a_file_system_of_the_caller_is_for_data_files(store: IcebergStore, tmp_path: Path) -> None:
    """It is used though the catalog has settings of the store: here for copies of the files."""
    import pyarrow.fs
    from fsspec.implementations.local import LocalFileSystem

    class Copies(LocalFileSystem):  # type: ignore[misc]
        protocol = "copies"

        @classmethod
        def _strip_protocol(cls, path: Any) -> Any:
            return super()._strip_protocol(str(path).replace("s3://", f"{tmp_path}/copies/"))

    data = [key for key in store.keys() if key.endswith(".parquet")]  # noqa: SIM118
    for key in data:
        copied = tmp_path / "copies" / store.s3.bucket / key
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(store.s3.get(key))
        store.s3.delete(key)
    table = parquet_bloom.iceberg(NAME, catalog=store.open("sql"))
    found = parquet_bloom.read_table(table, "id >= 0", filesystem=Copies())
    assert tables.contents(found) == tables.contents(tables.rows(0))
    with pytest.raises(ParquetBloomError, match="which file systems of pyarrow do not open: leave out filesystem="):
        parquet_bloom.prune(table, "id >= 0", filesystem=pyarrow.fs.S3FileSystem(region="us-east-1", anonymous=True))


@pytest.mark.ci
def test_a_folder_for_each_file(store: IcebergStore) -> None:
    properties = {"write.object-storage.enabled": "true"}
    table = store.open("sql").create_table("db.hashed", tables.rows(0).schema, properties=properties)
    for number in range(3):
        table.append(tables.rows(100 * number))
    old = [task.file.file_path for task in table.scan().plan_files()]
    assert len({path.rpartition("/")[0] for path in old}) == 3
    report = embed_table(table, ["id"])
    assert [file.new.rpartition("/")[0] for file in report.files] == sorted(path.rpartition("/")[0] for path in old)
    assert tables.read_iceberg(table) == tables.contents(tables.rows(0, 300))


@pytest.mark.ci
def test_files_outside_of_the_table_are_not_opened(store: IcebergStore) -> None:
    """Anyone who can write the metadata chooses them."""
    sink = io.BytesIO()
    pq.write_table(tables.rows(500).slice(0, 1), sink)
    store.s3.put("elsewhere/secret.parquet", sink.getvalue())
    secret = store.s3.url("elsewhere/secret.parquet")
    store.load().add_files([secret])
    store.s3.clear_log()
    report = embed_table(NAME, ["id"], catalog=store.open("sql"))
    assert [(one.path, one.reason) for one in report.skipped] == [(secret, "it lies outside of the table's folder")]
    assert len(report.files) == 5
    assert not [request for request in store.s3.log if request.key.startswith("elsewhere/")]

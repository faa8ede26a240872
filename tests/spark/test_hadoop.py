"""Files read through the driver's JVM: the bytes that are there, in as few requests as they take, and clear errors."""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSelector, FileType
from support.servers.webhdfs_server import Refusal, WebHdfsServer
from support.spark.spark_metrics import planned_files

import parquet_bloom
import parquet_bloom.spark
from parquet_bloom.errors import ManagedTableError, ParquetBloomError, StorageError
from parquet_bloom.file.metadata_cache import MetadataCache
from parquet_bloom.spark.condition.condition import read_condition
from parquet_bloom.spark.plan.column_trust import Rules, SparkCompatibility
from parquet_bloom.spark.plan.spark_planner import ListedFiles, ScanPlanner
from parquet_bloom.spark.session.hadoop import executor_storage, hadoop_filesystem, resolve_storage
from parquet_bloom.spark.session.session_settings import CannotPush, file_uri, listed_path
from parquet_bloom.storage import open_source

pytestmark = pytest.mark.spark

FILES, ROWS = 6, 1000
LOCAL = "org.apache.hadoop.fs.LocalFileSystem"
FOLDER = "la ke%é [x]"  # each sign means something to someone


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with a filter on `id`, each of 4 row groups; 6 files in a folder."""
    folder = tmp_path_factory.mktemp("web")
    (folder / FOLDER).mkdir()
    for number in range(FILES):
        ids = [*range(number, FILES * ROWS, FILES)]
        random.Random(number).shuffle(ids)
        path = folder / FOLDER / f"p {number}.parquet"
        pq.write_table(pa.table({"id": ids, "text": [f"t{i}" for i in ids]}), path, row_group_size=ROWS // 4)
        parquet_bloom.embed(path, ["id"])
    return folder


@pytest.fixture
def web(folder: Path) -> Iterator[WebHdfsServer]:
    with WebHdfsServer(folder) as server:
        yield server


@pytest.fixture
def frame(spark: Any, web: WebHdfsServer) -> Any:
    """A DataFrame over the files, listed; counting begins after that."""
    frame = spark.read.parquet(file_uri(f"{web.url}/{FOLDER}"))
    web.take()
    return frame


def list_states(frame: Any, folder: Path) -> dict[str, tuple[int, int]]:
    """Return the sizes and times that a listing has of the frame's files."""
    states = {uri: (folder / FOLDER / listed_path(uri).rpartition("/")[2]).stat() for uri in frame.inputFiles()}
    return {uri: (state.st_size, state.st_mtime_ns) for uri, state in states.items()}


def age(path: Path, minutes: int = 60) -> None:
    """Files that were changed just now are not cached."""
    then = time.time() - 60 * minutes
    os.utime(path, (then, then))


@pytest.fixture
def files(folder: Path, web: WebHdfsServer) -> Iterator[tuple[str, Callable[..., None]]]:
    """A folder's URL, and what replaces file 3 of its 6: ``put(ids, minutes ago, row_group_size)``."""
    home = folder / "files"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(folder / FOLDER, home)
    for path in home.iterdir():
        age(path)

    def put(ids: Any, minutes: int, row_group_size: int = ROWS) -> None:
        new = folder / "new.parquet"
        pq.write_table(pa.table({"id": ids, "text": [f"t{i}" for i in ids]}), new, row_group_size=row_group_size)
        parquet_bloom.embed(new, ["id"])
        age(new, minutes)
        new.replace(home / "p 3.parquet")

    yield f"{web.url}/files", put
    web.trouble = None
    shutil.rmtree(home)


def read_whole_file(path: str, filesystem: Any) -> bytes:
    with open_source(path, filesystem) as source:
        return source.read_at(0, source.size)


def test_spark_reads_them_itself(frame: Any, web: WebHdfsServer) -> None:
    assert [row.text for row in frame.where("id = 4321").collect()] == ["t4321"]
    counted = web.take()
    assert counted["requests"]["OPEN"] >= FILES
    assert counted["bytes"] > 0


def test_ranges_are_the_bytes_that_are_there(spark: Any, web: WebHdfsServer, folder: Path) -> None:
    data = (folder / FOLDER / "p 3.parquet").read_bytes()
    path = f"{web.url}/{FOLDER}/p 3.parquet"
    filesystem = hadoop_filesystem(spark)
    with filesystem.open_input_file(path) as file:
        assert (file.size(), file.read()) == (len(data), data)
    with filesystem.open_input_stream(path) as file:
        assert (file.read(3), file.read(5)) == (data[:3], data[3:8])
    rng = random.Random(5)
    ranges = [(start, rng.randrange(min(500, len(data) - start))) for start in rng.choices(range(len(data)), k=40)]
    with open_source(path, filesystem) as source:
        assert source.size == len(data)
        assert source.read_ranges(ranges) == [data[start : start + length] for start, length in ranges]
        with source.arrow_file() as file:
            assert pq.read_table(file).num_rows == ROWS


def test_many_threads_read_at_a_time(spark: Any, folder: Path) -> None:
    data = (folder / FOLDER / "p 0.parquet").read_bytes()
    filesystem = hadoop_filesystem(spark)

    def read(number: int) -> bool:
        with open_source(f"{server.url}/{FOLDER}/p 0.parquet", filesystem) as source:
            return source.read_at(number, 100) == data[number : number + 100]

    with WebHdfsServer(folder, delay=0.1) as server, ThreadPoolExecutor(16) as pool:
        reading = pool.map(read, range(32))
        assert all(reading)
        assert server.take()["requests"] == {"GETFILESTATUS": 32, "OPEN": 32, "READ": 32}
        assert server.most_at_once > 8


def test_pruning_finds_what_it_finds_locally(spark: Any, frame: Any, web: WebHdfsServer, folder: Path) -> None:
    paths, filesystem = resolve_storage(spark, frame.inputFiles())
    local = [str(folder) + path.removeprefix(web.url) for path in paths]
    # Of `text` filters decide nothing, and row groups as small as these are not worth a request for a dictionary.
    for where in ("id = 4321", "id = -1", "id IN (1, 2)", "id = 3 AND text = 't3'"):
        there = parquet_bloom.prune(paths, where, filesystem=filesystem)
        here = parquet_bloom.prune(local, where)
        assert [*there.selected.values()] == [*here.selected.values()]
        assert [path.rpartition("/")[2] for path in there.selected] == [Path(path).name for path in here.selected]
        assert (there.selected_files, there.total_row_groups) == (here.selected_files, here.total_row_groups)


def test_folders_are_listed(spark: Any, web: WebHdfsServer) -> None:
    filesystem = hadoop_filesystem(spark)
    result = filesystem.get_file_info(FileSelector(web.url + "/", recursive=True))
    assert sorted(info.base_name for info in result if info.type == FileType.File) == [
        f"p {number}.parquet" for number in range(FILES)
    ]
    assert [info.base_name for info in result if info.type == FileType.Directory] == [FOLDER]
    report = parquet_bloom.prune(f"{web.url}/{FOLDER}", "id = 4321", filesystem=filesystem)
    assert report.total_files == FILES
    missing = FileSelector(web.url + "/no", allow_not_found=True)
    assert filesystem.get_file_info(missing) == []
    with pytest.raises(FileNotFoundError):
        filesystem.get_file_info(FileSelector(web.url + "/no"))


def test_options_are_part_of_the_configuration(spark: Any) -> None:
    for options, problem in (({}, "No FileSystem for scheme"), ({"fs.other.impl": LOCAL}, "Wrong FS")):
        with pytest.raises(StorageError, match=problem):
            open_source("other://a/b", hadoop_filesystem(spark, options=options))


def test_read_errors_are_reported_on_one_line(spark: Any, web: WebHdfsServer, folder: Path) -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        nobody = f"webhdfs://127.0.0.1:{taken.getsockname()[1]}/a"
        refused = folder / "refused.parquet"
        refused.write_bytes(b"PAR1 and more")
        refused.chmod(0)
        reference = {f"{web.url}/refused.parquet": (13, 0), f"{web.url}/gone.parquet": (13, 0), nobody: (13, 0)}
        reference |= {f"{web.url}/{FOLDER}/p 0.parquet": (10**6, 0)}
        expected = {
            f"{web.url}/no": (errno.ENOENT, "there is no such file"),
            f"{web.url}/{FOLDER}": (errno.EISDIR, "it is a folder"),
            f"{web.url}/refused.parquet": (errno.EACCES, "Permission denied"),
            f"{web.url}/gone.parquet": (errno.ENOENT, "File does not exist"),
            f"{web.url}/{FOLDER}/p 0.parquet": (None, "EOFException"),
            nobody: (errno.ECONNREFUSED, "Connection refused"),
            "nowhere://a/b": (None, 'No FileSystem for scheme "nowhere"'),
        }
        for path, (number, problem) in expected.items():
            with pytest.raises(StorageError) as caught:
                read_whole_file(path, hadoop_filesystem(spark, reference))
            text = str(caught.value)
            assert (caught.value.errno, problem in text, "\n" in text) == (number, True, False), text
            assert (text.startswith(path), "\tat " in text, len(text) < 300) == (True, False, True), text
    refused.unlink()


def test_nothing_is_written(spark: Any, web: WebHdfsServer, folder: Path) -> None:
    path = f"{web.url}/{FOLDER}/p 0.parquet"
    with pytest.raises(ParquetBloomError):
        parquet_bloom.embed(path, ["text"], filesystem=hadoop_filesystem(spark))
    with pytest.raises(StorageError, match="can only be read"):
        parquet_bloom.embed(
            folder / FOLDER / "p 0.parquet", ["text"], filesystem=hadoop_filesystem(spark), output=f"{web.url}/new"
        )


def test_an_encrypted_file_is_said_to_be_one(spark: Any, web: WebHdfsServer, folder: Path) -> None:
    (folder / "encrypted.parquet").write_bytes(b"PARE" + bytes(50) + b"\x10\0\0\0PARE")
    with pytest.raises(ParquetBloomError, match=r"encrypted\.parquet: .*encrypted"):
        parquet_bloom.open(f"{web.url}/encrypted.parquet", hadoop_filesystem(spark))


def test_objects_with_options_are_read_without_the_jvm(spark: Any, s3: Any, folder: Path) -> None:
    s3.put("a b/p.parquet", (folder / FOLDER / "p 1.parquet").read_bytes())
    uri = s3.url("a b/p.parquet").replace("s3:", "s3a:").replace(" ", "%20")
    paths, filesystem = resolve_storage(spark, [uri], s3.storage_options)
    assert parquet_bloom.prune(paths, "id = 4321", filesystem=filesystem).selected_files == 1
    assert parquet_bloom.prune(paths, "id = 4322", filesystem=filesystem).selected_files == 0
    located, of_executor = executor_storage("s3a", s3.storage_options).locate(paths[0])
    assert parquet_bloom.prune(located, "id = 4322", filesystem=of_executor).selected_files == 0


def test_executors_open_what_fsspec_reads() -> None:
    with pytest.raises(StorageError, match="fsspec does not read it"):
        executor_storage("nowhere").locate("nowhere://a/b")


def test_every_way_of_asking_gives_native_rows(
    spark: Any, web: WebHdfsServer, folder: Path, rows: Any, conf: Any, caplog: pytest.LogCaptureFixture
) -> None:
    name = "odd ü%20[x]{}"
    parts = "case id % 3 when 0 then '02' when 1 then null else 'a b%/ü{}[x]?*' end p"
    moment = "timestamp_micros(1600000000000000 + pmod(xxhash64(id), 1000000000000)) t"
    with conf({"spark.sql.parquet.outputTimestampType": "INT96"}):
        frame = spark.range(0, 1200, 1, 2).selectExpr("id", "concat('u', id) s", moment, parts)
        frame.write.partitionBy("p").option("parquet.block.row.count.limit", 25).parquet(str(folder / name))
    assert parquet_bloom.spark.embed(spark, folder / name, ["id", "s", "t"]).ok
    url = file_uri(f"{web.url}/{name}")
    frame = spark.read.parquet(url)
    installed = parquet_bloom.spark.install(frame)
    plain = spark.read.option("parquet.filter.bloom.enabled", "false").parquet(url)
    (moment,) = plain.where("id = 700").select("t").first()
    wheres = {
        "id = 1150": 1,
        "p = 'a b%/ü{}[x]?*' and id = 1001": 1,
        "p is null and s in ('u4', 'u7')": 2,
        f"t = timestamp'{moment}'": 1,
    }
    for where, count in wheres.items():
        expected = rows(plain.where(where))
        assert len(expected) == count
        caplog.clear()
        for result in (
            parquet_bloom.spark.read_parquet(spark, url, where),
            parquet_bloom.spark.read_parquet(spark, url, where, row_groups=True),
            parquet_bloom.spark.pruned(frame, where),
            installed.where(where),
        ):
            assert rows(result) == expected
        assert caplog.messages == []  # nothing was left to Spark
        report = parquet_bloom.spark.explain_prune(frame, where)
        assert 1 <= report.selected_row_groups <= count + 1
        assert report.total_row_groups == sum(len(file.row_groups) for file in report.files) > 3
    shutil.rmtree(folder / name)


def test_a_table_is_refused(spark: Any, web: WebHdfsServer, folder: Path) -> None:
    (folder / "delta" / "_delta_log").mkdir(parents=True)
    shutil.copytree(folder / FOLDER, folder / "delta" / "part")
    web.take()
    for path in ("delta", "delta/part"):
        with pytest.raises(ManagedTableError, match="Delta table"):
            parquet_bloom.spark.read_parquet(spark, f"{web.url}/{path}", "id = 1")
    assert set(web.take()["requests"]) == {"GETFILESTATUS"}
    shutil.rmtree(folder / "delta")


def test_requests_cold_warm_and_on_an_old_listing(spark: Any, web: WebHdfsServer, files: Any) -> None:
    url, put = files
    cache = MetadataCache()
    frame, expected = spark.read.parquet(url), spark.read.parquet(url).schema
    web.take()
    spark.read.schema(expected).parquet(url)
    listing = web.take()["requests"]
    looking = {"GETFILESTATUS": listing["GETFILESTATUS"] + 4}  # whether it is a table

    def query(ask: Callable[[], Any]) -> dict[str, int]:
        web.take()
        ask()._jdf.queryExecution().executedPlan()
        requests: dict[str, int] = web.take()["requests"]
        return requests

    def read(where: str) -> dict[str, int]:
        return query(lambda: parquet_bloom.spark.read_parquet(spark, url, where, schema=expected, cache=cache))

    def pruned(where: str) -> dict[str, int]:
        return query(lambda: parquet_bloom.spark.pruned(frame, where, cache=cache))

    expected_requests = {"OPEN": FILES, "READ": FILES}
    assert read("id = 4321") == listing | looking | expected_requests
    assert len(cache) == FILES
    # Parts of a file that were read at different moments must be of one state: a list names the five left out.
    again = {"LISTSTATUS": listing["LISTSTATUS"] + 1}
    assert read("id = 4327") == listing | looking | expected_requests | again
    assert read("id = -1") == listing | looking  # statistics say it
    assert pruned("id = -1") == {"LISTSTATUS": 1}
    assert pruned("id = 4327") == expected_requests | {"LISTSTATUS": 2}
    installed = parquet_bloom.spark.install(frame, cache=cache)
    web.take()
    assert installed.where("id = -1").collect() == []
    assert web.take()["requests"] == {"LISTSTATUS": 1}
    cache.clear()
    assert pruned("id = 4327") == expected_requests | {"LISTSTATUS": 1}

    put([1, 2, 3], minutes=5)  # by another clock that may be just now
    cache.clear()
    pruned("id = 4327")
    assert len(cache) == FILES - 1


def test_a_listing_that_is_old(spark: Any, web: WebHdfsServer, files: Any, rows: Any) -> None:
    url, put = files
    cache = MetadataCache()
    frame = spark.read.parquet(url)
    installed = parquet_bloom.spark.install(frame, cache=cache)

    where = "id in (9, 5000000, 102999)"

    def ids_now() -> list[int]:
        native = rows(frame.where(where))
        assert rows(parquet_bloom.spark.pruned(frame, where, cache=cache)) == native
        assert rows(installed.where(where)) == native
        result = parquet_bloom.spark.read_parquet(spark, url, where, cache=cache)
        assert rows(result) == rows(spark.read.parquet(url).where(where))
        return sorted(row.id for row in result.collect())

    assert ids_now() == [9]
    path = Path(web.folder, "files", "p 3.parquet")
    size = path.stat().st_size
    ids = pq.read_table(path)["id"].to_pylist()
    moved = [id + 5_000_000 - 9 for id in ids]
    put(moved, 50, ROWS // 4)
    with path.open("rb+") as file:  # of the same size: the missing bytes are before the footer
        data = file.read()
        start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        file.seek(0)
        file.write(data[:start] + bytes(max(0, size - len(data))) + data[start:])
    age(path, 50)
    assert len(cache) == FILES
    assert ids_now() == [5_000_000]
    put([9, *range(100_000, 103_000)], 40)
    assert ids_now() == [9, 102_999]
    put([9], 30)
    assert ids_now() == [9]


def test_a_file_that_is_replaced_in_the_middle(
    spark: Any, web: WebHdfsServer, files: Any, rows: Any, caplog: pytest.LogCaptureFixture
) -> None:
    url, put = files
    cache = MetadataCache()
    ids = [*range(3, FILES * ROWS, FILES)]
    ask: list[Callable[[Any, Any], Any]] = [
        lambda frame, _: parquet_bloom.spark.read_parquet(spark, url, "id = 9", schema=frame.schema, cache=cache),
        lambda frame, _: parquet_bloom.spark.pruned(frame, "id = 9", cache=cache),
        lambda _, installed: installed.where("id = 9"),
    ]
    for way in ask:
        put(ids, 60, ROWS)
        frame = spark.read.parquet(url)
        installed = parquet_bloom.spark.install(frame, cache=cache)
        parquet_bloom.spark.pruned(frame, "id = 15", cache=cache)
        assert len(cache) >= FILES
        once = itertools.count()

        def replace(operation: str, path: str, once: Iterator[int] = once) -> None:
            if operation == "OPEN" and path.endswith("p 3.parquet") and not next(once):
                put(ids, 50, 100)  # the same rows, but filters and row groups elsewhere

        web.trouble = replace
        caplog.clear()
        assert rows(way(frame, installed)) == ["{'id': 9, 'text': 't9'}"]
        assert next(once) > 0
        assert "p 3.parquet is left to Spark: it was changed while it was planned" in caplog.text
        web.trouble = None


@pytest.mark.parametrize(
    ("status", "java_class", "problem"),
    [
        (403, "org.apache.hadoop.security.AccessControlException", "no such luck"),
        (500, "java.io.IOException", "IOException: no such luck"),
    ],
)
def test_a_file_that_the_server_refuses(
    spark: Any, web: WebHdfsServer, files: Any, caplog: Any, status: int, java_class: str, problem: str
) -> None:
    url, _ = files
    frame = spark.read.parquet(url)
    installed = parquet_bloom.spark.install(frame)

    def refuse(operation: str, path: str) -> None:
        if operation in ("READ", "GETFILESTATUS") and path.endswith("p 3.parquet"):
            raise Refusal(status, java_class, "no such luck\n\tat a line of Java")

    web.trouble = refuse
    where = "id = 10"  # in file 4
    for ask in (
        lambda: parquet_bloom.spark.read_parquet(spark, url, where, schema=frame.schema),
        lambda: parquet_bloom.spark.pruned(frame, where),
        lambda: parquet_bloom.spark.pruned(frame, where, probe_on="executors", storage_options={"user": "me"}),
    ):
        caplog.clear()
        answers = ask()
        assert [listed_path(uri)[-9:] for uri in planned_files(answers)] == ["3.parquet", "4.parquet"]
        (message,) = caplog.messages
        assert f"p 3.parquet is left to Spark: {problem}" in message or f": {problem.partition(': ')[2]}" in message
        assert "\n" not in message
    caplog.clear()
    with pytest.raises(Exception, match=r"no such|not exist"):
        installed.where(where).collect()  # it says what is wrong, as native does
    assert problem in caplog.text


def test_executors_ask_object_stores_and_tell_no_secrets(
    spark: Any, s3: Any, frame: Any, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uris = []
    for number in range(FILES):
        s3.put(f"a b/p {number}.parquet", (folder / FOLDER / f"p {number}.parquet").read_bytes())
        uris.append(s3.url(f"a b/p {number}.parquet").replace("s3:", "s3a:").replace(" ", "%20"))
    condition = read_condition(frame, "id = 4321")
    assert condition.node is not None
    trust = SparkCompatibility.of(condition.fields or {}, Rules.of(spark, {}))
    secret = {"aws_secret_access_key": "hunter2/secret"}

    def ask(**options: Any) -> Any:
        probing = ScanPlanner("executors", storage_options={**s3.storage_options, **secret, **options})
        return probing.scan(spark, ListedFiles(uris), condition.node, trust)

    assert [*ask().report.selected] == [listed_path(uris[1])]
    nobody = ask(aws_endpoint="http://127.0.0.1:1", max_retries=0)
    assert nobody.report.selected_files == FILES
    with pytest.raises(CannotPush, match=r"cannot create its store: .* parse") as caught:
        ask(aws_copy_if_not_exists="hunter2/secret")
    assert "hunter2" not in f"{caught.value} {nobody.unreadable} {nobody.report} {caplog.text}"


def test_executors_ask_what_fsspec_reads(spark: Any, files: Any, rows: Any, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("requests", reason="fsspec's WebHDFS needs it")
    url, _ = files
    frame = spark.read.parquet(url)
    options = {"user": "me", "password": "hunter2 hunter2"}
    result = parquet_bloom.spark.pruned(frame, "id = 4321", probe_on="executors", storage_options=options)
    assert (len(planned_files(result)), len(rows(result)), caplog.messages) == (1, 1, [])
    options = {"kerberos": True, "password": "hunter2 hunter2"}
    result = parquet_bloom.spark.pruned(frame, "id = 4321", probe_on="executors", storage_options=options)
    assert len(planned_files(result)) == FILES
    assert "fsspec does not read it" in caplog.text
    assert "hunter2" not in caplog.text

"""Fixtures that several folders of tests share."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# Tests import `support` by that name.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from support.scale import PROFILES

# How long an example takes says more of the machine than of the code.
for profile, examples in PROFILES.items():
    hypothesis.settings.register_profile(profile, deadline=None, max_examples=examples)
hypothesis.settings.load_profile("default")

# Spark asks the environment as soon as it is imported.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)

PROJECT = Path(__file__).resolve().parent.parent

# Folders whose tests only CI runs, but for those marked `default`.
CI_FOLDERS = (
    "adapters",
    "compat",
    "concurrency",
    "conformance",
    "crash",
    "property",
    "security",
    "serve",
    "spark",
    "stores",
)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the default tier, and of paths that are named CI's, unless there is a marker expression."""
    if not config.option.markexpr:
        named = config.args_source is pytest.Config.ArgsSource.ARGS
        config.option.markexpr = "not long" if named else "not ci and not long"
    # A shell has commands in the background ignore interrupts, and all that they start would do so, too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `CI_FOLDERS`, and of a test of all engines Spark's cases."""
    for item in items:
        has_spark, folder = "spark" in item.nodeid, item.path.relative_to(PROJECT / "tests").parts[0]
        if "spark" in item.fixturenames and not has_spark:  # type: ignore[attr-defined]
            raise pytest.UsageError(f"{item.nodeid} uses `spark`, so its file or folder is named after it")
        if (has_spark and folder != "spark") if item.get_closest_marker("default") else folder in CI_FOLDERS:
            item.add_marker("ci")


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of searches for garbage, which took 7 % of the tests' time."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)  # without xdist, as when wheels are tested, tests run one after the other
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a file together, since they share what it makes, and all of Spark's, which share one JVM."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if "spark" in nodeid else nodeid.split("::", 1)[0]

    return ByFile(config, log)


def missing(what: str) -> None:
    """Skip a test whose peer is not here, but never in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is missing, and CI runs every test")
    pytest.skip(f"{what} is missing")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of files from other projects' test suites."""
    from support import corpus

    if not corpus.FOLDER.is_dir():
        pytest.skip(f"no corpus at {corpus.FOLDER}")
    return corpus.FOLDER


@pytest.fixture(autouse=True)
def not_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index's writer does not wait until files are old enough to be distinguished by their times."""
    monkeypatch.setattr("parquet_bloom.file.identity.WAIT_SECONDS", 0.0)


@pytest.fixture
def settled_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes know files of just now by their times: the test changes none of them twice within a tick of the clock."""
    monkeypatch.setattr("parquet_bloom.file.identity.SETTLED_NS", -1)


@pytest.fixture
def settled_footers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Footers of files of just now are cached, as those of older ones are."""
    monkeypatch.setattr("parquet_bloom.file.metadata_cache.SETTLED_NS", -1)


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests() -> Iterator[None]:
    """Forget secrets between tests: one test's password may be an ordinary word in the messages of the next."""
    yield
    redaction = sys.modules.get("parquet_bloom.redaction")
    if redaction is not None:
        redaction.forget()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    location = tmp_path / "disk"
    location.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", location]).returncode:
        pytest.skip("no file system can be mounted")
    yield location
    subprocess.run(["umount", "-l", location], check=True)


@pytest.fixture(scope="session")
def clickhouse_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """ClickHouse in a process of its own: ``clickhouse_server("SELECT 1")``."""
    from support.engines import clickhouse

    if not clickhouse.installed():
        missing(clickhouse.NEEDED)
    with clickhouse.ClickHouse(tmp_path_factory.mktemp("clickhouse")) as server:
        yield server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Spark session for the whole run: two threads, no web page, no noise."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        missing("Java")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            missing("pyspark")
        folder = tmp_path_factory.mktemp("spark")
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            # A JVM that lives for a minute has no use for its slow compiler.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.log.level": "ERROR",
            # Years before 1900 as they stand: the default is an exception.
            "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
            "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
            "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
            "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
        }
        builder = SparkSession.builder.master("local[2]").appName("parquet_bloom tests")
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Any]:
    """One S3 server on loopback for the whole run."""
    try:
        from support.servers import s3_server
    except ImportError as error:
        missing(f"moto's server ({error})")
    yield from s3_server.serve()


@pytest.fixture
def s3(s3_server: Any) -> Iterator[Any]:
    """A bucket of its own on the S3 server; see `s3_server.S3`."""
    from support.servers.s3_server import S3

    bucket = S3(s3_server)
    yield bucket
    bucket.close()


@pytest.fixture(scope="session")
def arrow_probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Arrow C++'s own filter reader: ``arrow_probe(path, row_group, column_index, plain_value)``."""
    from support.writers import peers

    try:
        probe = peers.ArrowProbe(tmp_path_factory.mktemp("arrow_probe"))
    except FileNotFoundError as error:
        missing(str(error))
    yield probe
    probe.close()


class Written:
    """Files by the four writers, written on first use: ``peer_file("spark-all")``."""

    def __init__(self, request: pytest.FixtureRequest, filters: bool):
        self.request, self.filters = request, filters
        self.files: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        from support.writers import peer_cache, peers

        if name not in self.files:
            writer = name.split("-")[0]

            def write(folder: Path) -> list[peers.PeerFile]:
                session = [self.request.getfixturevalue("spark")] if writer == "spark" else []
                return getattr(peers, f"by_{writer}")(*session, folder, filters=self.filters)

            self.files.update({str(file): file for file in peer_cache.files(writer, self.filters, write)})
        return self.files[name]


@pytest.fixture(scope="session")
def peer_file(request: pytest.FixtureRequest) -> Written:
    """Files with filters by the four writers; tests copy what they change."""
    return Written(request, filters=True)


@pytest.fixture(scope="session")
def plain_file(request: pytest.FixtureRequest) -> Written:
    """Read the lake's files without filters."""
    return Written(request, filters=False)


@pytest.fixture(scope="session")
def ask_all(request: pytest.FixtureRequest) -> Callable[..., list[int]]:
    """`peers.needles`, with what the engine needs: ``ask_all(engine, [(path, column, value, arrow_type), ...])``."""
    from support.writers import peers

    needs = {"spark": {"spark": "spark"}, "pyarrow": {"probe": "arrow_probe"}}

    def rows(engine: str, questions: list[Any]) -> list[int]:
        helpers = {key: request.getfixturevalue(name) for key, name in needs.get(engine, {}).items()}
        return peers.needles(engine, questions, **helpers)

    return rows


@pytest.fixture(scope="session")
def ask(ask_all: Callable[..., list[int]]) -> Callable[..., int]:
    """`peers.needle`, with what the engine needs: ``ask(engine, path, column, value, arrow_type)``."""

    def rows(engine: str, *question: Any) -> int:
        return ask_all(engine, [question])[0]

    return rows

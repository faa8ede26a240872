"""Engines with SQL, of any release: how many rows a condition finds in a file, and files by them.

Needs the engine alone, imported when its class is made, so that a release in an environment of its own runs it, too.
"""

from __future__ import annotations

import collections
import contextlib
import shutil
from pathlib import Path
from typing import Any

BATCH = 80  # Spark's questions a job: planning one of more takes longer than it saves


class Engine:
    """Rows by conditions, and files; an engine without filters ignores `filters` when it writes."""

    failures: tuple[type[BaseException], ...] = (Exception,)

    def version(self) -> str:
        raise NotImplementedError

    def count(self, path: Path | str, where: str) -> int:
        raise NotImplementedError

    def counts(self, questions: list[dict[str, Any]]) -> list[int | None]:
        """The rows of each question's `path` that its `where` finds; None where the engine fails."""
        results: list[int | None] = []
        for question in questions:
            try:
                results.append(self.count(question["path"], question["where"]))
            except self.failures:
                results.append(None)
        return results

    def write(self, source: str, target: str, filters: bool, group: int, **options: Any) -> None:
        """A file of the rows of another one, in row groups of `group` rows."""
        raise NotImplementedError

    def close(self) -> None:
        pass


class DuckDB(Engine):
    def __init__(self) -> None:
        import duckdb

        self.failures = (duckdb.Error,)
        self.release = duckdb.__version__
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        with contextlib.suppress(duckdb.Error):  # the extension that knows time zones may be missing
            self.connection.execute("SET TimeZone = 'UTC'")

    def version(self) -> str:
        return f"DuckDB {self.release}"

    def count(self, path: Path | str, where: str) -> int:
        query = f"SELECT count(*) FROM read_parquet('{path}') WHERE {where}"
        return self.connection.execute(query).fetchall()[0][0]

    def write(self, source: str, target: str, filters: bool, group: int, **options: Any) -> None:
        # Releases before 1.3 have no say in it: 1.2 writes filters, older ones do not.
        options = {"ROW_GROUP_SIZE": group, "WRITE_BLOOM_FILTER": filters, **options}
        if tuple(map(int, self.release.split(".")[:2])) < (1, 3):
            del options["WRITE_BLOOM_FILTER"]
        text = ", ".join(f"{key} {value}" for key, value in options.items())
        copied = f"SELECT * FROM read_parquet('{source}')"
        self.connection.execute(f"COPY ({copied}) TO '{target}' (FORMAT parquet, {text})")

    def close(self) -> None:
        self.connection.close()


class DataFusion(Engine):
    def __init__(self) -> None:
        import datafusion

        self.module = datafusion
        self.context: Any = None
        self.names: dict[str, str] = {}

    def version(self) -> str:
        return f"DataFusion {self.module.__version__}"

    def table(self, path: Path | str) -> str:
        """The name of a file's table. A context for a few files: what it knows of files, it keeps."""
        if self.context is None or len(self.names) >= 8:
            self.context = self.module.SessionContext(self.module.SessionConfig().with_target_partitions(1))
            self.names = {}
        if str(path) not in self.names:
            self.names[str(path)] = f"t{len(self.names)}"
            self.context.register_parquet(self.names[str(path)], str(path))
        return self.names[str(path)]

    def count(self, path: Path | str, where: str) -> int:
        query = f"SELECT count(*) AS n FROM {self.table(path)} WHERE {where}"
        return self.context.sql(query).collect()[0].column(0)[0].as_py()

    def write(self, source: str, target: str, filters: bool, group: int, **options: Any) -> None:
        given: dict[str, Any] = {"max_row_group_size": group, "bloom_filter_on_write": str(filters).lower()}
        if filters:  # a number given is enough to turn filters on
            given |= {"bloom_filter_ndv": 200, "bloom_filter_fpp": 0.001}
        text = ", ".join(f"'format.{key}' '{value}'" for key, value in (given | options).items())
        copied = f"SELECT * FROM {self.table(source)}"
        self.context.sql(f"COPY ({copied}) TO '{target}' STORED AS PARQUET OPTIONS ({text})").collect()


class ClickHouse(Engine):
    def __init__(self, folder: str) -> None:
        import chdb
        from chdb import session

        self.release = f"{chdb.engine_version} (chdb {chdb.__version__})"
        self.session = session.Session(folder)

    def version(self) -> str:
        return f"ClickHouse {self.release}"

    def count(self, path: Path | str, where: str) -> int:
        query = f"SELECT count() FROM file('{path}', Parquet) WHERE {where}"
        return int(str(self.session.query(query, "CSV")).strip())

    def write(self, source: str, target: str, filters: bool, group: int, **options: Any) -> None:
        self.session.query(clickhouse_copy(source, target, filters, group, **options))

    def close(self) -> None:
        self.session.close()


def clickhouse_copy(source: str, target: str, filters: bool, group: int, **options: Any) -> str:
    """Return the query by which ClickHouse writes a file, see `Engine.write`."""
    given = {"row_group_size": group, "write_bloom_filter": int(filters), "string_as_string": 0, **options}
    text = ", ".join(f"output_format_parquet_{key} = {value}" for key, value in given.items())
    return (
        f"INSERT INTO FUNCTION file('{target}', Parquet) SELECT * FROM file('{source}', Parquet) "
        f"SETTINGS max_threads = 1, {text}"
    )


class Spark(Engine):
    """Spark in a session that is given."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def version(self) -> str:
        parquet = self.session._jvm.org.apache.parquet.Version.VERSION_NUMBER
        return f"Spark {self.session.version} (parquet-java {parquet})"

    def counts(self, questions: list[dict[str, Any]]) -> list[int | None]:
        results: list[int | None] = []
        for start in range(0, len(questions), BATCH):
            results += self._together(questions[start : start + BATCH])
        return results

    def _together(self, questions: list[dict[str, Any]]) -> list[int | None]:
        """A batch in one job; if one question fails all, in halves."""
        try:
            return list(spark_counts(self.session, [(item["path"], item["where"]) for item in questions]))
        except Exception:  # of the JVM, by several ways
            if len(questions) == 1:
                return [None]
        middle = len(questions) // 2
        return self._together(questions[:middle]) + self._together(questions[middle:])

    def write(self, source: str, target: str, filters: bool, group: int, **options: Any) -> None:
        given: dict[str, Any] = {"parquet.enable.dictionary": "false", "parquet.block.row.count.limit": group}
        if filters:
            given |= {"parquet.bloom.filter.enabled": "true", "parquet.bloom.filter.expected.ndv": 10_000}
            given |= {"parquet.bloom.filter.max.bytes": 256}
        given = {key: str(value) for key, value in (given | options).items()}
        settings = {key: given.pop(key) for key in list(given) if key.startswith("spark.")}
        before = {key: self.session.conf.get(key) for key in settings}
        folder = Path(f"{target}.folder")
        try:
            for key, value in settings.items():
                self.session.conf.set(key, value)
            self.session.read.parquet(source).coalesce(1).write.options(**given).parquet(str(folder))
        finally:
            for key, value in before.items():
                self.session.conf.set(key, value)
        (part,) = folder.glob("*.parquet")
        shutil.move(part, target)
        shutil.rmtree(folder)


def spark_counts(
    spark: Any, questions: list[tuple[Path | str, str]], schemas: dict[Path | str, str] | None = None
) -> list[int]:
    """The rows that Spark finds by each condition in a file, in one job.

    A job of its own for each would take longer than all else in the suite. `schemas` are those of files that Spark
    is not to look up.
    """
    frames: dict[Path | str, Any] = {}
    answers = None
    for number, (path, where) in enumerate(questions):
        if path not in frames:
            reader = spark.read.option("parquet.filter.dictionary.enabled", "false")
            if schemas and path in schemas:
                reader = reader.schema(schemas[path])
            frames[path] = reader.parquet(str(path))
        result = frames[path].where(where).selectExpr(f"{number} AS number")
        answers = result if answers is None else answers.unionAll(result)
    assert answers is not None
    counts = collections.Counter(row.number for row in answers.collect())
    return [counts[number] for number in range(len(questions))]


# Years before 1900 as they stand: the default is an exception. Older releases know these by other names, or not at all.
REBASE = {
    f"spark.sql.{prefix}parquet.{kind}RebaseModeIn{side}": "CORRECTED"
    for prefix in ("", "legacy.")
    for kind in ("datetime", "int96")
    for side in ("Read", "Write")
}
# What releases that are older than Java 17 ask of it.
OPENED = ("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util")
OPENED += ("java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action")
OPENED += ("sun.util.calendar",)


def spark_session(folder: str) -> Any:
    """A small session for a process of its own."""
    from pyspark.sql import SparkSession

    java = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    java += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Thousands of small queries: compiling each takes longer than answering it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        **REBASE,
    }
    builder = SparkSession.builder.master("local[2]").appName("parquet_bloom compatibility")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session

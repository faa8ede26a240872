"""Random queries of a lake, each through one of the ways to prune it, held row by row against Spark alone.

Usable in classic sessions and in Spark Connect; `ask` takes what the session is able to.
"""

from __future__ import annotations

import functools
import logging
import os
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import parquet_bloom.spark
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.spark.source.source_options import parse_conjuncts
from support.random_cases.spark_conditions import Condition, Drawing
from support.random_cases.spark_lakes import Lake, as_path
from support.spark.spark_metrics import planned_files

CLASSIC = (*["read"] * 5, *["pruned"] * 4, "view", "join", "union", "aggregate", "install", "install", "sql", "sql")
_AT_ONCE = 12  # queries a job: plans of many more take Spark long
ZONES = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "America/New_York", "Etc/GMT-3")
_LOG_PATTERN = re.compile(r"read ([0-9]+) of ([0-9]+) files?, ([0-9]+) of ([0-9]+) row groups?")


@dataclass
class QueryTally:
    """Counts over many queries.

    Attributes
    ----------
    num_queries : number of queries that were compared with Spark's answer.
    matched : number of those that rows match.
    skipped : number of those for which files or row groups were left out.
    refused : number of questions that are not for the way that was drawn, or fail in Spark itself.
    wrong : what differs, as texts.
    ways : number of queries by the way that they were run.
    as_spark : number of answers that lack rows just as Spark's own do, without filters, when it pushes the condition
        down: not all writers' statistics are as it takes them.
    """

    num_queries: int = 0
    matched: int = 0
    skipped: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    ways: dict[str, int] = field(default_factory=dict)
    as_spark: int = 0

    def __add__(self, other: QueryTally) -> QueryTally:
        ways = {way: self.ways.get(way, 0) + other.ways.get(way, 0) for way in self.ways | other.ways}
        numbers = (self.num_queries + other.num_queries, self.matched + other.matched, self.skipped + other.skipped)
        wrong = self.wrong + other.wrong
        return QueryTally(*numbers, self.refused + other.refused, wrong, ways, self.as_spark + other.as_spark)


class _Log(logging.Handler):
    """Log handler that collects how many of a lake's row groups were skipped."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.skipped = False

    def emit(self, record: logging.LogRecord) -> None:
        for match in _LOG_PATTERN.findall(record.getMessage()):
            files, all_files, groups, all_groups = map(int, match)
            self.skipped |= files < all_files or groups < all_groups


def draw_settings(rng: random.Random) -> dict[str, str]:
    """Settings that decide what values and names mean, and how Spark reads."""
    return {
        "spark.sql.ansi.enabled": rng.choice(["true", "false"]),
        "spark.sql.session.timeZone": rng.choice(ZONES),
        "spark.sql.parquet.enableVectorizedReader": rng.choice(["true", "true", "false"]),
        "spark.sql.parquet.filterPushdown": rng.choice(["true", "true", "true", "false"]),
        "spark.sql.adaptive.enabled": rng.choice(["true", "false"]),
        "spark.sql.optimizer.inSetConversionThreshold": rng.choice(["10", "2"]),
    }


@dataclass
class Asking:
    """Asks one lake many questions.

    Parameters
    ----------
    spark : the session, under the settings drawn.
    rng : decides.
    lake : the lake to query.
    ways : those that questions may go.
    on_executors : how often files are pruned by a job.
    index : of the lake, as the ways take it; None for none.
    """

    spark: Any
    rng: random.Random
    lake: Lake
    ways: tuple[str, ...] = CLASSIC
    on_executors: float = 0.03
    index: Any = None

    def __post_init__(self) -> None:
        self.tally = QueryTally()
        self.path = self._spelled_path()
        reader = self.spark.read.option("parquet.filter.bloom.enabled", "false")
        inferred = reader.parquet(as_path(self.path)).schema
        complete = reader.schema(self.lake.schema).parquet(as_path(self.path)).schema
        has_all = {name.lower() for name in complete.names} <= {name.lower() for name in inferred.names}
        # Without a schema names are Spark's affair: of some file. Conditions are about the columns that are there.
        self.schema = inferred if has_all and self.rng.random() < 0.5 else complete
        self.native = reader.schema(self.schema).parquet(as_path(self.path))
        self.plain = self.spark.read.schema(self.schema).parquet(as_path(self.path))
        self.installed: Any = None

    def _spelled_path(self) -> str:
        path = str(self.lake.path)
        return self.rng.choice([path, path, f"file:{path}", f"file://{path}", os.path.relpath(path)])

    def ask(self, count: int) -> QueryTally:
        """So many questions."""
        drawing = Drawing(self.rng, self.lake, self.spark.conf.get("spark.sql.session.timeZone"))
        conditions = [drawing.condition() for _ in range(count)]
        expected = self._expected(conditions)
        queries = []
        log = _Log()
        logger = logging.getLogger("parquet_bloom.spark")
        before = logger.level
        logger.addHandler(log)
        logger.setLevel(logging.INFO)
        try:
            for condition in conditions:
                if condition.text not in expected:
                    self.tally.refused += 1
                    continue
                way = self.rng.choice(self.ways)
                log.skipped = False
                try:
                    question = getattr(self, f"_{way}")(condition)
                except Exception as error:
                    self._wrong(way, condition, f"{type(error).__name__}: {str(error)[:300]}")
                    continue
                if question is None:
                    self.tally.refused += 1
                    continue
                result, native = question
                queries.append((way, condition, result, native))
                if way in ("install", "sql"):  # files are pruned when the query is planned
                    self._plan(result)
                self.tally.skipped += log.skipped
        finally:
            logger.removeHandler(log)
            logger.setLevel(before)
        self._compare(queries, expected)
        return self.tally

    # ------------------------------------------------------------------------------------------------ expectations

    def _expected(self, conditions: list[Condition]) -> dict[str, list[int]]:
        """The rows of each condition, by its text; evaluated by Spark in one pass, with nothing pushed down."""
        texts = list(dict.fromkeys(condition.text for condition in conditions))
        return self._evaluated(texts)

    def _evaluated(self, texts: list[str]) -> dict[str, list[int]]:
        if not texts:
            return {}
        try:
            columns = [F.expr(text).alias(f"c{number}") for number, text in enumerate(texts)]
            table = self.native.select("row", *columns).toArrow()
        except PySparkException:
            if len(texts) == 1:
                return {}  # of types that do not compare, or a value that cannot be cast
            middle = len(texts) // 2
            return self._evaluated(texts[:middle]) | self._evaluated(texts[middle:])
        rows = table.column("row").to_pylist()
        results = {}
        for number, text in enumerate(texts):
            mask = table.column(number + 1).to_pylist()
            if all(value is None or isinstance(value, bool) for value in mask):
                results[text] = sorted(row for row, value in zip(rows, mask, strict=True) if value)
        return results

    def _compare(self, queries: list[Any], expected: dict[str, list[int]]) -> None:
        """All answers in one job, and where that fails one by one."""
        shaped = [number for number, (_, _, _, native) in enumerate(queries) if native is not None]
        expected_result: dict[int, Any] = {
            number: expected[condition.text]
            for number, (_, condition, _, native) in enumerate(queries)
            if native is None
        }
        expected_result |= self._answers({number: queries[number][3] for number in shaped})
        matches = self._answers({number: frame for number, (_, _, frame, _) in enumerate(queries)})
        for number, (way, condition, frame, _) in enumerate(queries):
            want, got = expected_result[number], matches[number]
            if isinstance(want, Exception):
                self.tally.refused += 1
                continue
            self.tally.num_queries += 1
            self.tally.ways[way] = self.tally.ways.get(way, 0) + 1
            self.tally.matched += bool(want)
            if isinstance(got, Exception):
                if way == "source" and "outside of Spark" in str(got):
                    self.tally.refused += 1  # as documented
                elif isinstance(self._answers({0: self.native.where(condition.text).select("row")})[0], Exception):
                    self.tally.refused += 1  # pushed down it fails without us, too
                else:
                    self._wrong(way, condition, f"{type(got).__name__}: {str(got)[:600]}")
            elif got != want:
                native = self._answers({0: self.native.where(condition.text).select("row")})[0]
                if condition.text in expected and got == native != expected[condition.text]:
                    self.tally.as_spark += 1  # Spark, pushing the condition down, loses rows of these files by itself
                    continue
                message = f"missing {_less(want, got)[:8]}, surplus {_less(got, want)[:8]} of {len(want)} rows"
                same = (
                    ""
                    if condition.text not in expected or native == expected[condition.text]
                    else " (Spark itself, pushing down, is wrong as well)"
                )
                self._wrong(way, condition, f"{message}{same}; {planned_files(frame)}")

    def _answers(self, frames: dict[int, Any]) -> dict[int, Any]:
        """Sorted rows of DataFrames of one column of numbers; or what was raised."""
        if len(frames) > _AT_ONCE:
            numbers = list(frames)
            parts = (numbers[start : start + _AT_ONCE] for start in range(0, len(numbers), _AT_ONCE))
            return {key: value for part in parts for key, value in self._answers({n: frames[n] for n in part}).items()}
        if not frames:
            return {}
        nothing = F.lit(None).cast("string").alias("everything")
        numbered = [
            frame.select(F.lit(number).alias("n"), "row", *(["everything"] if len(frame.columns) > 1 else [nothing]))
            for number, frame in frames.items()
        ]
        try:
            table = functools.reduce(lambda one, other: one.unionAll(other), numbered).toArrow()
        except Exception as error:
            if len(frames) == 1:
                return dict.fromkeys(frames, error)
            numbers = list(frames)
            middle = len(numbers) // 2
            return self._answers({number: frames[number] for number in numbers[:middle]}) | self._answers(
                {number: frames[number] for number in numbers[middle:]}
            )
        results: dict[int, list[int]] = {number: [] for number in frames}
        for number, row, text in zip(*(column.to_pylist() for column in table.columns), strict=True):
            results[number].append(row)
            if text is not None and text != self._texts[row]:
                self.tally.wrong.append(f"{self.path}: row {row} is {text}, and not {self._texts[row]}")
        return {number: sorted(rows) for number, rows in results.items()}

    @cached_property
    def _texts(self) -> dict[int, str]:
        """All rows of the lake."""
        table = self.native.select("row", _everything()).toArrow()
        return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def _wrong(self, way: str, condition: Condition, message: str) -> None:
        zone, ansi = (self.spark.conf.get(f"spark.sql.{key}") for key in ("session.timeZone", "ansi.enabled"))
        self.tally.wrong.append(
            f"{way} [{zone}, ansi {ansi}, {self.path}] {condition.lists or condition.text}: {message}"
        )

    @staticmethod
    def _plan(frame: Any) -> None:
        try:
            frame._jdf.queryExecution().executedPlan()
        except Exception:  # it will fail again when rows are read
            return

    # -------------------------------------------------------------------------------------------------------- ways

    def _chosen(self, frame: Any) -> Any:
        """Return the rows' numbers, and for every fourth query the values of all their columns."""
        complete = len(frame.columns) == len(self.schema) and self.rng.random() < 0.25
        return frame.select("row", *([_everything().alias("everything")] if complete else []))

    def _where(self, condition: Condition) -> Any:
        if condition.lists is not None:
            return condition.lists
        return condition.text if self.rng.random() < 0.7 else F.expr(condition.text)

    def _options(self) -> dict[str, Any]:
        rng = self.rng
        return {
            "row_groups": rng.choice([False, True, "auto"]),
            "probe_on": "executors" if rng.random() < self.on_executors else rng.choice(["auto", "driver"]),
            "max_fraction": rng.choice([0.5, 1.0, 1.0]),
            "index": self.index,
        }

    def _read(self, condition: Condition) -> Any:
        options = self._options()
        if self.rng.random() < 0.3:
            options["columns"] = ["row"]
        where = self._where(condition)
        result = parquet_bloom.spark.read_parquet(self.spark, self.path, where, schema=self.schema, **options)
        return self._chosen(result), None

    def _pruned(self, condition: Condition) -> Any:
        frame = self.plain
        if self.rng.random() < 0.3:
            frame = frame.where("row >= 0")
        result = parquet_bloom.spark.pruned(frame, self._where(condition), **self._options())
        return self._chosen(result), None

    def _shaped(self, shape: Callable[[Any], Any], condition: Condition) -> Any:
        """Return a query over the lake, with and without pruning."""
        result = parquet_bloom.spark.pruned(shape(self.plain), condition.text, **self._options())
        return result.select("row"), shape(self.native).where(condition.text).select("row")

    def _view(self, condition: Condition) -> Any:
        self.plain.createOrReplaceTempView("asked_view")
        frame = self.spark.sql("SELECT *, row + 1 AS next FROM asked_view WHERE row % 7 <> 3")
        result = parquet_bloom.spark.pruned(frame, self._where(condition), **self._options())
        return result.select("row"), self.native.where("row % 7 <> 3").where(condition.text).select("row")

    def _join(self, condition: Condition) -> Any:
        kind = self.rng.choice(["inner", "left", "right", "left_semi", "left_anti", "full"])
        other = self.spark.range(0, 14000, 3).withColumnRenamed("id", "other")

        def shape(frame: Any) -> Any:
            return frame.join(other, F.col("row") == F.col("other"), kind)

        return self._shaped(shape, condition)

    def _union(self, condition: Condition) -> Any:
        def shape(frame: Any) -> Any:
            # Two reads: of one and the same DataFrame twice nothing is pruned.
            again = self.spark.read.option("parquet.filter.bloom.enabled", "false").schema(self.schema)
            return frame.unionByName(again.parquet(as_path(self.path)).where("row % 2 = 0"))

        return self._shaped(shape, condition)

    def _aggregate(self, condition: Condition) -> Any:
        column = self.rng.choice([column for column in self.lake.columns if column.kind != "ma"])

        def shape(frame: Any) -> Any:
            named = [name for name in frame.columns if name.lower() in condition.text.lower()]
            retained = [name for name in named if name.lower() not in (column.name, "row")]
            last = (F.max_by(name, "row").alias(name) for name in retained)
            return frame.groupBy(column.name).agg(F.max("row").alias("row"), *last)

        return self._shaped(shape, condition)

    def _install(self, condition: Condition) -> Any:
        return self._chosen(self._installed().where(condition.text)), None

    def _installed(self) -> Any:
        if self.installed is None:
            self.installed = parquet_bloom.spark.install(self.plain, max_fraction=1.0, index=self.index)
        return self.installed

    def _sql(self, condition: Condition) -> Any:
        """SQL on a view of an installed table: subqueries, self-joins, unions with itself."""
        self._installed().createOrReplaceTempView("installed")
        self.native.createOrReplaceTempView("native")
        text = condition.text
        query = self.rng.choice(
            [
                f"SELECT row FROM installed WHERE {text}",
                f"SELECT row FROM installed WHERE row IN (SELECT row + 1 FROM installed WHERE {text})",
                f"SELECT row FROM installed WHERE {text} UNION ALL SELECT row FROM installed WHERE row < 3",
                f"SELECT a.row FROM (SELECT row FROM installed WHERE {text}) a JOIN installed b ON b.row = a.row",
                f"SELECT count(*) AS row FROM installed WHERE {text} HAVING count(*) > 0",
                f"WITH few AS (SELECT * FROM installed WHERE {text}) "
                "SELECT row FROM few WHERE row = (SELECT max(row) FROM few)",
                f"SELECT row FROM installed WHERE EXISTS (SELECT 1 FROM installed o WHERE o.row = 1000) AND ({text})",
            ]
        )
        return self.spark.sql(query), self.spark.sql(query.replace("installed", "native"))

    def _source(self, condition: Condition) -> Any:
        """The data source."""
        zone = self.spark.conf.get("spark.sql.session.timeZone")
        try:
            parse_conjuncts(condition.text, self.schema, zone, True)
        except ParquetBloomError:
            return None
        # Columns that pyarrow cannot read as Spark does are refused: only the requested ones are selected.
        text = condition.text.lower()
        schema = StructType([item for item in self.schema if item.name == "row" or item.name.lower() in text])
        reader = self.spark.read.format("parquet_bloom").schema(schema).option("prune", condition.text)
        # A relative one leads elsewhere from where the server's Python workers are.
        path = self.path if self.path.startswith("file:") else os.path.abspath(self.path)
        return self._chosen(reader.load(path).where(condition.text)), None


def _everything() -> Any:
    """All columns of a row as a text."""
    stamps = {"timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS XXX", "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"}
    return F.to_json(F.struct("*"), stamps)


def _less(one: list[int], other: list[int]) -> list[int]:
    remaining = list(other)
    results = []
    for item in one:
        if item in remaining:
            remaining.remove(item)
        else:
            results.append(item)
    return results

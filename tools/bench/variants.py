"""Conditions on paths of shredded Variants: parquet_bloom, DuckDB and Spark on the same files.

python tools/bench/variants.py [--folder FOLDER] [--files N] [--rows N] [--repeat N] [--engines NAME...]

The files are made once by Spark in the folder given, and reused: documents of events, shredded to all of their fields,
in files of two row groups; `user` is random, `id` ascends from file to file. Then `user` gets Bloom filters.

rows        of the row groups that are read; of Spark those that its scan gives
MB          that the process has read of files (rchar of /proc), the footers included
first       the first query of a process that has imported what it needs, by wall clock
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from _common import header, positive  # first, to import the package of this checkout

import parquet_bloom
from parquet_bloom.file.metadata_cache import SHARED_CACHE

FIELDS = "id bigint, user string, at struct<country string, ms double>"
ENGINES = ["parquet_bloom", "DuckDB", "Spark"]
OPTIONS = {
    "spark.sql.variant.writeShredding.enabled": "true",
    "spark.sql.variant.forceShreddingSchemaForTest": FIELDS,
}


class Question(NamedTuple):
    """A condition in each engine's words, and what it asks."""

    name: str
    ours: str
    duckdb: str

    @property
    def spark(self) -> str:
        return self.ours


def make_questions(user: str, number: int) -> list[Question]:
    return [
        Question("one user, by filters", f"v:user::string = '{user}'", f"v.user::VARCHAR = '{user}'"),
        Question("no such user", "v:user::string = 'nobody'", "v.user::VARCHAR = 'nobody'"),
        Question("one id, by statistics", f"v:id::bigint = {number}", f"v.id::BIGINT = {number}"),
        Question("a country, by dictionaries", "v:at.country::string = 'xx'", "v.at.country::VARCHAR = 'xx'"),
        Question("not stored as a column", "v:at::string LIKE '%\"xx\"%'", "v.at::VARCHAR LIKE '%xx%'"),
    ]


def make_lake(folder: Path, files: int, rows: int) -> None:
    """Write the files with Spark, unless they are there."""
    if (folder / "_SUCCESS").exists():
        return
    from _spark import session

    with session() as spark:
        for name, value in OPTIONS.items():
            spark.conf.set(name, value)
        at = "'{\"country\":\"', char(97 + int(rand(2) * 20)), char(97 + int(rand(3) * 3)), '\",\"ms\":', rand(4), '}'"
        text = f"concat('{{\"id\":', id, ',\"user\":\"', uuid(), '\",\"at\":', {at}, '}}')"
        frame = spark.range(0, files * rows, 1, files).selectExpr("id AS k", f"parse_json({text}) AS v")
        frame.write.option("parquet.block.size", rows * 60).mode("overwrite").parquet(str(folder))
    parquet_bloom.embed(sorted(map(str, folder.glob("*.parquet"))), ["v:user"])


def bytes_read(process: int | str) -> int:
    """Return the bytes that a process has read of files so far."""
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    return int(next(line.split(": ")[1] for line in lines if line.startswith("rchar")))


class Engine(NamedTuple):
    """How an engine counts the rows of a question; `read` says how many rows the last one has read, if it is known."""

    count: Callable[[Question], int]
    read: Callable[[Question], int | None]
    process: int | str


@contextmanager
def open_engines(folder: Path, names: list[str]) -> Iterator[dict[str, Engine]]:
    paths = sorted(map(str, folder.glob("*.parquet")))
    with ExitStack() as stack:
        engines = {}
        if "parquet_bloom" in names:

            def ours(question: Question) -> int:
                return parquet_bloom.read_table(str(folder), question.ours, ["k"]).num_rows

            def rows_of(question: Question) -> int:
                plan = parquet_bloom.prune(paths, question.ours)
                return sum(group.num_rows for file in plan.files for group in file.read_groups)

            engines["parquet_bloom"] = Engine(ours, rows_of, "self")
        if "DuckDB" in names:
            import duckdb

            connection = stack.enter_context(duckdb.connect())
            connection.execute("SET parquet_metadata_cache = true")

            def by_duckdb(question: Question) -> int:
                found = connection.sql(f"SELECT k FROM '{folder}/*.parquet' WHERE {question.duckdb}").to_arrow_table()
                return int(found.num_rows)

            engines["DuckDB"] = Engine(by_duckdb, lambda question: None, "self")
        if "Spark" in names:
            from _spark import scanned, session

            spark = stack.enter_context(session())
            lake = spark.read.parquet(str(folder))
            frames: dict[str, Any] = {}

            def by_spark(question: Question) -> int:
                frames[question.name] = frame = lake.where(question.spark).select("k")
                return len(frame.collect())

            process = spark._jvm.java.lang.ProcessHandle.current().pid()
            engines["Spark"] = Engine(by_spark, lambda question: scanned(frames[question.name])[1], process)
        yield engines


def measure(folder: Path, questions: list[Question], names: list[str], repeat: int) -> None:
    with open_engines(folder, names) as engines:
        print(f"  {'ms, MB, rows read':<28}{'found':>8}" + "".join(f"{name:>30}" for name in engines))
        for question in questions:
            found = {name: engine.count(question) for name, engine in engines.items()}
            if len(set(found.values())) > 1:
                raise SystemExit(f"{question.name}: {found}")
            seconds: dict[str, list[float]] = {name: [] for name in engines}
            read: dict[str, list[int]] = {name: [] for name in engines}
            for _ in range(repeat):
                for name, engine in engines.items():
                    before, started = bytes_read(engine.process), time.perf_counter()
                    engine.count(question)
                    seconds[name].append(time.perf_counter() - started)
                    read[name].append(bytes_read(engine.process) - before)
            cells = ""
            for name, engine in engines.items():
                rows = engine.read(question)
                cells += f"{1e3 * statistics.median(seconds[name]):10.0f}{statistics.median(read[name]) / 1e6:9.1f}"
                cells += f"{'-' if rows is None else format(rows, ','):>11}"
            print(f"  {question.name:<28}{found['parquet_bloom']:8,}{cells}", flush=True)
    print()


def measure_first(folder: Path, questions: list[Question], repeat: int) -> None:
    names = ["parquet_bloom", "DuckDB"]
    print(f"  {'first query of a process, ms':<36}" + "".join(f"{name:>30}" for name in names))
    for number, question in enumerate(questions[:3]):
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(repeat):
            for name in names:
                command = [sys.executable, __file__, "--folder", str(folder.parent), "--one", name, str(number)]
                seconds[name].append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        medians = "".join(f"{1e3 * statistics.median(seconds[name]):30.0f}" for name in names)
        print(f"  {question.name:<36}{medians}", flush=True)


def choose(folder: Path) -> list[Question]:
    """Return the questions for a user and an id that are there."""
    path = sorted(map(str, folder.glob("*.parquet")))[-1]
    rows = parquet_bloom.read_table([path], "v.typed_value.id.typed_value >= 0")
    field = rows["v"].chunk(0).field("typed_value")
    return make_questions(
        field.field("user").field("typed_value")[7].as_py(), field.field("id").field("typed_value")[9].as_py()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of the lake, made once and reused (default: a temporary one)")
    parser.add_argument("--files", type=positive, default=1_000)
    parser.add_argument("--rows", type=positive, default=10_000, help="of each file")
    parser.add_argument("--repeat", type=positive, default=5)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.folder or Path(temporary)) / "variants"
        if arguments.one:
            name, number = arguments.one
            question = choose(folder)[int(number)]
            SHARED_CACHE.clear()
            with open_engines(folder, [name]) as engines:
                started = time.perf_counter()
                engines[name].count(question)
                print(time.perf_counter() - started)
            return
        make_lake(folder, arguments.files, arguments.rows)
        size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
        header(
            "paths of shredded Variants",
            f"lake     {arguments.files:,} files of {arguments.rows:,} documents, {size / 1e6:,.0f} MB, by Spark",
            f"runs     medians of {arguments.repeat} in turn, warm",
        )
        questions = choose(folder)
        measure(folder, questions, arguments.engines, arguments.repeat)
        measure_first(folder, questions, arguments.repeat)


if __name__ == "__main__":
    main()

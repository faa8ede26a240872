"""Engines over a dataset of this package, each held against the same engine over a plain pyarrow dataset."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

from parquet_bloom.scan.dataset import Dataset
from parquet_bloom.scan.scan_source import ScanSource

from .dataset_expressions import Expressions
from .dataset_lakes import Lake, draw_lake
from .dataset_sql import SqlDrawing

ENGINES = ("duckdb", "polars", "datafusion", "pyarrow")
QUERIES = 40  # of each lake


@dataclass
class Tally:
    """What came of many queries.

    Attributes
    ----------
    asked : queries that were compared.
    matched : those with rows.
    pruned : those for which a file or row group was not read.
    files, opened : files of all scans, and those with a row group that was read.
    groups, read : the same of row groups.
    refused : queries that the engine refuses over plain files too.
    peer_wrong : queries whose answer over plain files is not that over the same rows in memory, but ours is.
    wrong : differences, as texts.
    """

    asked: int = 0
    matched: int = 0
    pruned: int = 0
    files: int = 0
    opened: int = 0
    groups: int = 0
    read: int = 0
    refused: int = 0
    peer_wrong: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add another tally to this one."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        return (
            f"{self.asked:,} queries, {self.matched:,} with rows, {self.pruned:,} pruned; opened {self.opened:,} of "
            f"{self.files:,} files ({self.opened / max(self.files, 1):.1%}), {self.read:,} of {self.groups:,} row "
            f"groups; {self.refused:,} refused, {len(self.peer_wrong):,} wrong over plain files; {len(self.wrong):,} "
            "differences"
        )


@contextmanager
def recording(reports: list[Any]) -> Iterator[None]:
    """Record the plan of each scan."""
    make_plan = ScanSource.plan

    def plan(self: ScanSource, *arguments: Any, **options: Any) -> Any:
        reports.append(make_plan(self, *arguments, **options))
        return reports[-1]

    with mock.patch.object(ScanSource, "plan", plan):
        yield


class _Question:
    """A query, to be asked of any dataset.

    Attributes
    ----------
    text : for messages.
    ask : gives the answer over a dataset, in a form that can be compared.
    """

    def __init__(self, text: str, ask: Callable[[Any], Any]):
        self.text, self.ask = text, ask


def hunt(seed: int, engine: str, folder: Path, queries: int = QUERIES) -> Tally:
    """Compare one lake's answers to some queries."""
    lake = draw_lake(seed, folder)
    rng = random.Random(f"{seed} {engine}")
    draw = _ENGINES[engine](rng, lake)
    tally, in_memory = Tally(), ds.dataset(lake.plain.to_table())
    for number in range(queries):
        question = draw(number)
        expected = _try(question, lake.plain)
        if isinstance(expected, Exception):
            tally.refused += 1
            continue
        reports: list[Any] = []
        with recording(reports):
            found = _try(question, lake.ours)
        tally.asked += 1
        _count(tally, reports)
        tally.matched += bool(expected)
        if not isinstance(found, Exception) and found == expected:
            continue
        told = f"seed {seed} {engine}, query {number}: {question.text}: {_tell(found)}, and not {_tell(expected)}"
        again = _try(question, in_memory)
        if isinstance(found, pl.exceptions.SchemaError) and "series 'literal'" in str(found):
            tally.refused += 1  # polars cannot compare the column with the literal, in whichever rows it comes to that
        elif isinstance(found, Exception) and isinstance(again, Exception) and _is_alike(again, found):
            tally.refused += 1  # it fails over these rows, and plain files were spared some of them by statistics
        elif not isinstance(found, Exception) and found == again:
            tally.peer_wrong.append(told)
        else:
            tally.wrong.append(told)
    return tally


def _try(question: _Question, dataset: Any) -> Any:
    try:
        return question.ask(dataset)
    except Exception as error:
        return error
    except BaseException as error:  # a panic of Rust
        if type(error).__name__ != "PanicException":
            raise
        return RuntimeError(str(error))


def _is_alike(one: Exception, other: Exception) -> bool:
    """Return whether two errors are the same, of whichever row."""
    first, second = (re.sub(r"-?[0-9][0-9.e+]*", "N", str(error)) for error in (one, other))
    return first in second


def _count(tally: Tally, reports: list[Any]) -> None:
    has_pruned = False
    for report in reports:
        groups, read = report.total_row_groups, report.selected_row_groups
        opened = sum(bool(file.selected) for file in report.files)
        tally.files, tally.opened = tally.files + len(report.files), tally.opened + opened
        tally.groups, tally.read = tally.groups + groups, tally.read + read
        has_pruned |= read < groups
    tally.pruned += has_pruned


def _tell(answer: Any) -> str:
    if isinstance(answer, Exception):
        return f"{type(answer).__name__}: {' '.join(str(answer).split())[:300]}"
    return f"{len(answer)} rows {answer[:6]}"


def _rows(table: pa.Table, ordered: bool = False, is_grouped: bool = False) -> list[str]:
    """Rows as texts, in which NaN equals NaN."""
    rows = [_text(row.values(), is_grouped) for row in table.to_pylist()]
    return rows if ordered else sorted(rows)


def _text(row: Iterable[Any], is_grouped: bool) -> str:
    """A row as a text. Of equal values, either 0.0 or -0.0 may stand for the group."""
    return repr(tuple(abs(value) if is_grouped and isinstance(value, float) and value == 0 else value for value in row))


def _sql(dialect: str, run: Callable[[Any, str], pa.Table]) -> Callable[..., Callable[[int], _Question]]:
    def begin(rng: random.Random, lake: Lake) -> Callable[[int], _Question]:
        drawing = SqlDrawing(rng, lake, dialect)

        def draw(number: int) -> _Question:
            text = drawing.query().replace("{t}", "lake")
            is_grouped = "GROUP BY" in text or "DISTINCT " in text
            return _Question(text, lambda dataset: _rows(run(dataset, text), is_grouped=is_grouped))

        return draw

    return begin


def _run_duckdb(dataset: Any, text: str) -> pa.Table:
    connection = _connect_duckdb().cursor()
    connection.execute("SET TimeZone='UTC'")
    connection.register("lake", dataset)
    try:
        return connection.sql(text).to_arrow_table()
    finally:
        connection.unregister("lake")
        connection.close()


@cache
def _connect_duckdb() -> Any:
    return duckdb.connect(config={"threads": 1})


def _run_datafusion(dataset: Any, text: str) -> pa.Table:
    context = datafusion.SessionContext()
    context.register_dataset("lake", dataset)
    return context.sql(text).to_arrow_table()


def _polars(rng: random.Random, lake: Lake) -> Callable[[int], _Question]:
    expressions = Expressions(rng, lake)
    rows = pl.from_arrow(lake.plain.to_table())

    def draw(number: int) -> _Question:
        condition = expressions.polars()
        shape = rng.choice(["all", "all", "row", "count", "group", "head", "join"])
        is_native = rng.random() < 0.4
        name = rng.choice(["row", *lake.kinds])

        def scan(dataset: Any) -> pl.LazyFrame:
            if dataset is lake.ours:
                frame: pl.LazyFrame = dataset.to_polars() if is_native else pl.scan_pyarrow_dataset(dataset)
                return frame
            # A LazyFrame of this package filters as polars does; pyarrow's filters as Arrow does.
            return rows.lazy() if is_native else pl.scan_pyarrow_dataset(dataset)

        def ask(dataset: Any) -> list[str]:
            frame = scan(dataset).filter(condition)
            if shape == "row":
                frame = frame.select("row")
            elif shape == "count":
                frame = frame.select(pl.len(), pl.col("row").max().alias("m"))
            elif shape == "group":
                frame = frame.group_by(name).agg(pl.len(), pl.col("row").max().alias("m"))
            elif shape == "head":
                frame = frame.sort("row").head(3)
            elif shape == "join":
                frame = frame.join(scan(dataset).select("row"), on="row", how="semi")
            return sorted(_text(row, shape == "group") for row in frame.collect().rows())

        text = f"{'to_polars' if is_native else 'scan_pyarrow_dataset'} {shape} {condition}"
        return _Question(text, ask)

    return draw


def _pyarrow(rng: random.Random, lake: Lake) -> Callable[[int], _Question]:
    expressions = Expressions(rng, lake)

    def draw(number: int) -> _Question:
        condition, second = expressions.arrow(), expressions.arrow()
        names = rng.choice([None, ["row"], rng.sample(lake.ours.schema.names, rng.randint(1, 2))])
        way = rng.choice(list(_WAYS))
        return _Question(f"{way} {names} {condition}", lambda dataset: _WAYS[way](dataset, condition, second, names))

    return draw


def _read_fragments(dataset: Any, condition: Any, second: Any, names: Any) -> list[str]:
    tables = [one.to_table(filter=condition, columns=["row"]) for one in dataset.get_fragments(condition)]
    return _rows(pa.concat_tables(tables)) if tables else []


def _filter_twice(dataset: Any, first: Any, second: Any) -> Any:
    """Filter a dataset twice; pyarrow's own crashes when it is filtered a second time."""
    return dataset.filter(first).filter(second) if isinstance(dataset, Dataset) else dataset.filter(first & second)


def _filter_and_scan(dataset: Any, first: Any, second: Any, names: Any) -> pa.Table:
    """Read a filtered dataset with another filter, as which pyarrow's own crashes too."""
    if isinstance(dataset, Dataset):
        return dataset.filter(first).to_table(names, filter=second)
    return dataset.to_table(names, filter=first & second)


_WAYS: dict[str, Callable[..., list[str]]] = {
    "to_table": lambda dataset, one, two, names: _rows(dataset.to_table(names, filter=one)),
    "scanner": lambda dataset, one, two, names: _rows(
        dataset.scanner(names, filter=one, use_threads=False).to_table(), True
    ),
    "to_reader": lambda dataset, one, two, names: _rows(dataset.scanner(names, filter=one).to_reader().read_all()),
    "to_batches": lambda dataset, one, two, names: _rows(
        pa.Table.from_batches(dataset.to_batches(filter=one, columns=["row"]), pa.schema([("row", pa.int64())]))
    ),
    "count_rows": lambda dataset, one, two, names: [str(dataset.count_rows(filter=one))],
    "head": lambda dataset, one, two, names: _rows(dataset.head(3, ["row"], filter=one, use_threads=False), True),
    "take": lambda dataset, one, two, names: _rows(dataset.take([0, 2], ["row"], filter=one, use_threads=False), True),
    "filter": lambda dataset, one, two, names: _rows(dataset.filter(one).to_table(names)),
    "filter twice": lambda dataset, one, two, names: _rows(_filter_twice(dataset, one, two).to_table(names)),
    "filter and scan": lambda dataset, one, two, names: _rows(_filter_and_scan(dataset, one, two, names)),
    "projection": lambda dataset, one, two, names: _rows(
        dataset.to_table({"x": one, "r": ds.field("row")}, filter=two)
    ),
    "fragments": _read_fragments,
}
_ENGINES: dict[str, Callable[..., Callable[[int], _Question]]] = {
    "duckdb": _sql("duckdb", _run_duckdb),
    "datafusion": _sql("datafusion", _run_datafusion),
    "polars": _polars,
    "pyarrow": _pyarrow,
}

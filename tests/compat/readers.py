"""Readers: this package, Arrow C++'s filter reader, and engines in separate processes, all with one interface."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.engines import clickhouse
from support.processes.line_process import LineProcess
from support.writers import peers

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError

from .columns import Question

WORKER = Path(__file__).with_name("worker.py")
CHUNK = 400  # questions a line
Counts = list[int | None]  # rows found; None where the reader fails


class WorkerError(Exception):
    """Message of an engine that failed."""


class Worker:
    """A release of an engine in a process of its own.

    Parameters
    ----------
    engine : its name, as `worker.py` knows it.
    folder : where the engine keeps what it needs.
    python : of the environment that has the release; by default the one that runs.
    """

    def __init__(self, engine: str, folder: Path, python: str = sys.executable):
        folder.mkdir(parents=True, exist_ok=True)
        self.engine = engine
        self.process = LineProcess([python, str(WORKER), engine, str(folder)])
        self.title: str = self._ask("version")
        self.release = tuple(int(part) for part in self.title.split()[1].split(".")[:2])

    def _ask(self, what: str, **given: Any) -> Any:
        answer = json.loads(self.process.ask(json.dumps({"do": what, "with": given})))
        if "error" in answer:
            raise WorkerError(f"{getattr(self, 'title', self.engine)}: {answer['error']}")
        return answer["answer"]

    def write(self, **given: Any) -> None:
        self._ask("write", **given)

    def count(self, plain: Path, questions: Sequence[tuple[Path, Question]]) -> Counts:
        """The rows of each file that equal the value; `plain` is the file without filters."""
        queried = [sql_question(self.engine, self.release, plain, *question) for question in questions]
        return self.counts(queried)

    def counts(self, questions: Sequence[dict[str, Any]]) -> Counts:
        """Count the rows for questions in the engine's own form."""
        results: Counts = []
        for start in range(0, len(questions), CHUNK):
            results += self._ask("counts", questions=questions[start : start + CHUNK])
        return results

    def close(self) -> None:
        self.process.close()


def sql_question(engine: str, release: tuple[int, ...], plain: Path, path: Path, requested: Question) -> dict[str, Any]:
    """Return a question in the form that `sql_engines` or `frame_engines` takes."""
    question = {"path": str(path), "plain": str(plain), "column": requested.column, "row": requested.row}
    if engine not in ("pyarrow", "polars", "fastparquet"):
        question["where"] = sql(engine, release, requested)
    return question


def sql(engine: str, release: tuple[int, ...], question: Question) -> str:
    """`column = value` for an engine."""
    value, arrow = question.value, question.arrow
    if engine == "clickhouse":
        unit, scale = getattr(arrow, "unit", "us"), getattr(arrow, "scale", 0)
        return f"{clickhouse.column(question.column)} = {clickhouse.literal(value, unit, scale)}"
    if isinstance(value, float) and value != value:
        return f"{peers.sql_column(engine, question.column)} = {peers.nan(engine, arrow)}"
    if engine == "spark" and release < (3, 4) and pa.types.is_timestamp(arrow):  # it knows stamps with a zone only
        arrow = pa.timestamp(arrow.unit, "UTC")
    return f"{peers.sql_column(engine, question.column)} = {peers.literal(engine, value, arrow)}"


class Ours:
    """parquet_bloom itself: the rows of `read_table`, or of a list's elements those of the row groups that stay."""

    engine = "parquet_bloom"

    def __init__(self) -> None:
        self.title = f"parquet_bloom {parquet_bloom.__version__}"

    def count(self, plain: Path, questions: Sequence[tuple[Path, Question]]) -> Counts:
        results: Counts = []
        for path, queried in questions:
            try:
                results.append(self._one(path, queried))
            except ParquetBloomError:  # a literal that the column cannot hold exactly
                results.append(None)
        return results

    def _one(self, path: Path, question: Question) -> int:
        where = [(question.column, "=", peers.as_literal(question.value, question.arrow))]
        if question.title != "list element":
            return parquet_bloom.read_table(path, where, columns=[question.column.split(".")[0]]).num_rows
        (file,) = parquet_bloom.prune(path, where).files
        top, *rest = question.column.split(".")
        stored = pq.ParquetFile(path).read_row_groups(list(file.selected), columns=[top])[top].to_pylist()
        return sum(leaf == question.value for row in stored for leaf in peers.leaf_values(row, rest))

    def close(self) -> None:
        pass


class ArrowFilters:
    """Arrow C++'s own reader of filters, which pyarrow ships and no scan of its asks."""

    engine = "arrow"

    def __init__(self, probe: Any):
        self.probe = probe
        self.title = f"Arrow C++ {pa.__version__}"

    def count(self, plain: Path, questions: Sequence[tuple[Path, Question]]) -> Counts:
        return [peers.needle("pyarrow", path, a.column, a.value, a.arrow, probe=self.probe) for path, a in questions]

    def close(self) -> None:
        self.probe.close()

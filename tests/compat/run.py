"""Pairs of writers and readers: installed releases, and older ones in separate environments."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from support.writers import peers

from . import columns, far
from .columns import Part
from .files import Written, written
from .matrix import Matrix
from .readers import ArrowFilters, Ours, Worker, WorkerError

# {engine: the package that has it}; polars and fastparquet write no filters of their own and ask none.
ENGINES = {
    "pyarrow": "pyarrow",
    "duckdb": "duckdb",
    "datafusion": "datafusion",
    "spark": "pyspark",
    "clickhouse": "chdb",
    "polars": "polars",
    "fastparquet": "fastparquet",
}
READS_COMMON = ("spark", "fastparquet")  # readers that refuse a file for one column


def installed(engine: str) -> bool:
    return importlib.util.find_spec(ENGINES[engine]) is not None


Say = Callable[[str], None]
LOCK = threading.Lock()  # on what is found


@dataclass
class Run:
    """A run of the suite.

    Parameters
    ----------
    folder : for its files.
    quick : fewer columns and variants.
    distinct : values of a column in each row group.
    say : called with a line about each step.
    jobs : number of readers that run at once.
    matrix : what is known already, and what is found.
    keep : called when something was found.
    """

    folder: Path
    quick: bool
    distinct: int
    say: Say
    jobs: int = 1
    matrix: Matrix = field(default_factory=Matrix)
    keep: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.only = columns.QUICK if self.quick else None

    def files(self, engine: str, worker: Any) -> Iterator[Written]:
        """The files of a writer, one part after the other; parts that it cannot write are noted."""
        for name, part in columns.parts(engine, self.distinct, self.only).items():
            folder = self.folder / "files" / worker.title.replace(" ", "-").replace("(", "").replace(")", "")
            try:
                directory = self._written(engine, worker, folder, name, part)
            except WorkerError as error:
                self.note(f"cannot write a {name} file: {error}")
                continue
            self.matrix.check(worker.title, directory)
            yield directory
            shutil.rmtree(folder)

    def _written(self, engine: str, worker: Any, folder: Path, name: str, part: Part) -> Written:
        try:
            return written(engine, worker, folder, name, part, quick=self.quick)
        except WorkerError as error:
            retained = [column for column in part.columns if self._writes(worker, folder, part, column)]
            if not retained:
                raise
            remaining = ", ".join(column for column in part.columns if column not in retained)
            self.note(f"without {remaining}: {error}")
            return written(engine, worker, folder, name, replace(part, columns=retained), quick=self.quick)

    def _writes(self, worker: Any, folder: Path, part: Part, column: str) -> bool:
        source = columns.write_source(folder / "trial-source.parquet", replace(part, columns=[column]))
        try:
            target = str(folder / "trial.parquet")
            worker.write(source=str(source), target=target, filters=False, group=part.rows, **part.options)
        except WorkerError:
            return False
        return True

    def ask(self, title: str, created: Written, readers: Iterable[Any]) -> None:
        """Let readers read a file of the writer of that title."""

        def one(reader: Any) -> None:
            step, start = (title, created.name, reader.title), time.monotonic()
            if step in self.matrix.done:
                return
            result = Matrix()
            try:
                result.add(title, created, reader)
            except (OSError, EOFError, WorkerError) as error:
                self.note(f"{reader.title} failed at the file {created.name} of {title}: {error}")
                return
            with LOCK:
                self.matrix.merge(result)
                self.matrix.done.add(step)
                self.keep()
            self.say(f"  {reader.title}: {created.name} of {title}, {time.monotonic() - start:.0f} s")

        fit = [reader for reader in readers if created.part.common or reader.engine not in READS_COMMON]
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(one, fit))

    def note(self, text: str) -> None:
        if text not in self.matrix.notes:
            self.matrix.notes.append(text)
        self.say(text)

    def current(self, engines: Iterable[str]) -> None:
        """All that are installed, each with each."""
        with contextlib.ExitStack() as stack:
            readers: list[Any] = [Ours()]
            with contextlib.suppress(FileNotFoundError):  # without a C++ compiler
                probe = peers.ArrowProbe(self.folder)
                readers.append(stack.enter_context(contextlib.closing(ArrowFilters(probe))))
            workers: dict[str, Worker] = {}
            for engine in engines:
                if not installed(engine):
                    self.note(f"{engine} is not installed")
                    continue
                workers[engine] = stack.enter_context(contextlib.closing(Worker(engine, self.folder / engine)))
                self.say(workers[engine].title)
            readers += workers.values()
            self.matrix.order = [reader.title for reader in readers]
            for engine, worker in workers.items():
                for created in self.files(engine, worker):
                    self.ask(worker.title, created, readers)
                if engine == "spark":
                    self.from_afar(worker)

    def from_afar(self, worker: Worker) -> None:
        """Let a release of Spark read large filters over a network."""
        if worker.title in self.matrix.far:
            return
        try:
            with far.served(self.folder / worker.title.replace(" ", "-") / "far") as url:
                result = far.lost(worker, url)
        except WorkerError as error:
            self.note(f"cannot read over WebHDFS: {error}")
            return
        with LOCK:
            self.matrix.far[worker.title] = result
            self.keep()

    def release(self, engine: str, worker: Any, current: Worker | None) -> None:
        """An older release reads files of today's pyarrow with our filters; its own are read by it, today's and us.

        Parameters
        ----------
        engine, worker : the release.
        current : today's release of the same engine.
        """
        arrow = PyArrowHere()
        for created in self.files("pyarrow", arrow):
            self.ask(arrow.title, ours_only(created), [worker])
        readers: list[Any] = [Ours(), worker] + ([current] if current else [])
        for created in self.files(engine, worker):
            self.ask(worker.title, created, readers)
        if engine == "spark":
            self.from_afar(worker)


def ours_only(created: Written) -> Written:
    return replace(created, variants=[variant for variant in created.variants if variant.filters == "ours"])


class PyArrowHere:
    """Today's pyarrow as a writer, in this process."""

    engine = "pyarrow"

    def __init__(self) -> None:
        from support.engines.frame_engines import PyArrow

        self.arrow = PyArrow()
        self.title = self.arrow.version()

    def write(self, **given: Any) -> None:
        self.arrow.write(**given)

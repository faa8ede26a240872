"""Positions of rows as a DataFrame: Spark's tasks search files for keys, or read the key of every row."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from ...file.cache.memory import SHARED_CACHE
from ...redaction import shown_redacted
from ...scan.lookup.locate import Locator
from ...scan.options import ScanOptions
from ...scan.source import ScanSource
from ...storage import is_url, resolve_filesystem
from ...tables.snapshot import ReadTable, TableSnapshot
from ..jobs.file_tasks import iter_numbers
from .convert import conform

Files = Sequence[str] | TableSnapshot
"""The files of a task: their paths, or the part of a table that has them."""


@shown_redacted
@dataclass
class LocateTask:
    """Function for `mapInArrow`: the numbers of tasks to positions in their files.

    Attributes
    ----------
    source : of the dataset; its paths and its table are those of each task.
    dataset_schema : of the dataset.
    columns : of the key.
    tasks : the files of each task.
    target : schema of the positions.
    keys : a table as an Arrow stream; None for the positions of all rows.
    storage_options : of the files' store.
    """

    source: ScanSource
    dataset_schema: pa.Schema
    columns: str | Sequence[str]
    tasks: Sequence[Files]
    target: pa.Schema
    keys: bytes | None = field(repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in iter_numbers(batches):
            with closing(self._locate(self.tasks[number])) as located:
                for batch in located:
                    yield pa.RecordBatch.from_arrays(conform(batch, self.target, ignore_case=False), schema=self.target)

    def _locate(self, files: Files) -> Generator[pa.RecordBatch, None, None]:
        source = replace(
            self.source,
            filesystem=resolve_filesystem(None, self.storage_options),
            storage_options=self.storage_options,
            cache=SHARED_CACHE,
        )
        if isinstance(files, TableSnapshot):
            source = replace(source, paths=None, table=ReadTable(files))
        else:  # a PurePath is never taken for a pattern
            source = replace(source, paths=[path if is_url(path) else PurePath(path) for path in files])
        locator = Locator(source, self.dataset_schema, None, self.columns, ScanOptions(threads=1))
        if self.keys is None:
            return locator.read_all_batches()
        with pa.ipc.open_stream(self.keys) as stream:
            return locator.read_batches(stream.read_all())

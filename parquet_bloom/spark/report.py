"""What distributed jobs did, file by file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ..errors import printable
from ..redaction import shown_redacted

# What a field of a file's result is as a column, by its annotation.
_TYPES = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "tuple[str, ...]": pa.list_(pa.field("element", pa.string())),
}


class _OfOneFile(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def error(self) -> str | None: ...


F = TypeVar("F", bound=_OfOneFile)


@shown_redacted
@dataclass(frozen=True)
class FileResult:
    """What was done to one file.

    Attributes
    ----------
    path : the file.
    status : "embedded", "unchanged" (its filters were there) or "failed"; in a dry run "would embed" for "embedded".
        What an executor did, and was lost before it could tell, its successor finds done: "unchanged".
    bytes_added : how much larger it became.
    filters : number of filters written.
    kept : number of filters that were there and stayed.
    missing : columns asked for that it does not have.
    seconds : time that the task took for it.
    error : why it failed, or None.
    """

    path: str
    status: str
    bytes_added: int = 0
    filters: int = 0
    kept: int = 0
    missing: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str | None = None


@shown_redacted
@dataclass(frozen=True)
class FileVerdict:
    """What was found of one file's filters.

    Attributes
    ----------
    path : the file.
    status : "good", "bad" (something is wrong with a filter), "no filters", or "failed": it cannot be read.
    filters : number of filters that were checked.
    values : number of values that were probed; None without `data`.
    problems : a line for each bad filter.
    notes : a line for each filter that is unusual and yet right.
    seconds : time that the task took for it.
    error : why it failed, or None.
    """

    path: str
    status: str
    filters: int = 0
    values: int | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str | None = None


def _schema_of(result: type[FileResult] | type[FileVerdict]) -> pa.Schema:
    return pa.schema([(each.name, _TYPES[str(each.type).removesuffix(" | None")]) for each in fields(result)])


@dataclass
class _JobReport(Generic[F]):
    files: list[F] = field(default_factory=list)
    seconds: float = 0.0

    schema: ClassVar[pa.Schema]

    def _with(self, *statuses: str) -> list[F]:
        return [file for file in self.files if file.status in statuses]

    @property
    def failures(self) -> list[F]:
        """The files that failed, each with its `error`."""
        return self._with("failed")

    @property
    def total_files(self) -> int:
        return len(self.files)

    def rows(self) -> list[dict[str, Any]]:
        """A row a file, as Python's own types: for `json`, or for a test."""
        return [asdict(file) for file in self.files]  # type: ignore[call-overload]

    def to_arrow(self) -> pa.Table:
        """A row a file, of the columns in `schema`. What of a name is no text is escaped."""
        rows = [{**row, "path": _text(row["path"])} for row in self.rows()]
        return pa.Table.from_pylist(rows, schema=self.schema)

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_dataframe(self, spark: SparkSession) -> DataFrame:
        """The same as a Spark DataFrame: of what was done, not of something to be done again."""
        return spark.createDataFrame(self.to_arrow())

    def _tail(self, bad: Sequence[F], what: str, first: str | None) -> list[str]:
        return [f"{len(bad):,} {what} ({first})"] if bad else []


@shown_redacted
@dataclass
class EmbedJobReport(_JobReport[FileResult]):
    """What `parquet_bloom.spark.embed` did.

    Attributes
    ----------
    files : a result a file, in the order of their paths.
    seconds : time from call to return.
    dry_run : whether nothing was written, and the numbers are what they would be.
    """

    dry_run: bool = False

    schema: ClassVar[pa.Schema] = _schema_of(FileResult)

    @property
    def ok(self) -> bool:
        """Whether no file failed. One that did is as it was before."""
        return not self.failures

    @property
    def embedded_files(self) -> int:
        """Number of files that got filters; in a dry run, that would get some."""
        return len(self._with("embedded", "would embed"))

    @property
    def unchanged_files(self) -> int:
        return len(self._with("unchanged"))

    @property
    def bytes_added(self) -> int:
        return sum(file.bytes_added for file in self.files)

    @property
    def num_filters(self) -> int:
        """Number of filters written; in a dry run, that would be."""
        return sum(file.filters for file in self.files)

    def __str__(self) -> str:
        total = f"{self.total_files:,} file{'' if self.total_files == 1 else 's'}"
        done = "would embed" if self.dry_run else "embedded"
        parts = [f"{done} {self.num_filters:,} filters into {self.embedded_files:,} of {total}"]
        parts.append(f"{self.bytes_added:+,} bytes")
        if self.unchanged_files:
            parts.append(f"{self.unchanged_files:,} unchanged")
        parts += self._tail(self.failures, "failed", next((file.error for file in self.failures), None))
        return ", ".join([*parts, f"{self.seconds:.1f} s"])


@shown_redacted
@dataclass
class VerifyJobReport(_JobReport[FileVerdict]):
    """What `parquet_bloom.spark.verify` found.

    Attributes
    ----------
    files : a verdict a file, in the order of their paths.
    seconds : time from call to return.
    """

    schema: ClassVar[pa.Schema] = _schema_of(FileVerdict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with any filter, and every file could be read."""
        return not self.bad and not self.failures

    @property
    def bad(self) -> list[FileVerdict]:
        """The files with a filter that something is wrong with."""
        return self._with("bad")

    @property
    def num_filters(self) -> int:
        """Number of filters checked."""
        return sum(file.filters for file in self.files)

    @property
    def problems(self) -> list[str]:
        """A line for each bad filter, of all files."""
        return [problem for file in self.files for problem in file.problems]

    def __str__(self) -> str:
        total = f"{self.total_files:,} file{'' if self.total_files == 1 else 's'}"
        parts = [f"{self.num_filters:,} filters in {total}, {len(self.problems) or 'none'} of them bad"]
        without = len(self._with("no filters"))
        if without:
            parts.append(f"{without:,} without filters")
        parts += self._tail(self.bad, "bad", next(iter(self.problems), None))
        parts += self._tail(self.failures, "failed", next((file.error for file in self.failures), None))
        return ", ".join([*parts, f"{self.seconds:.1f} s"])


def _text(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        return printable(path)
    return path

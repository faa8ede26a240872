"""Results of distributed jobs, file by file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession

from ..file.tabular_report import Kind, TabularReport
from ..file.verify_file import summarize_verdicts
from ..redaction import shown_redacted
from ..util.messages import count, count_of

# Kinds of the fields of a file's result, by their annotations.
_KINDS: Mapping[str, Kind] = {"str": "text", "int": "int", "float": "float", "tuple[str, ...]": "texts"}


class _FileOutcome(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def error(self) -> str | None: ...


F = TypeVar("F", bound=_FileOutcome)


@shown_redacted
@dataclass(frozen=True)
class FileResult:
    """Result of embedding into one file.

    Attributes
    ----------
    path : the file.
    status : "embedded", "unchanged" (its filters were there) or "failed"; in a dry run "would embed" for "embedded".
        A file that an executor finished before it was lost is "unchanged" for the task's next attempt.
    bytes_added : bytes by which the file grew.
    filters : number of filters written.
    kept : number of existing filters that stayed.
    missing : requested columns that the file does not have.
    seconds : time that the task took for the file.
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
    """Result of checking one file's filters.

    Attributes
    ----------
    path : the file.
    status : "good", "bad" (a filter is wrong), "no filters", or "failed" (it cannot be read).
    filters : number of filters that were checked.
    values : number of values that were probed; None without `data`.
    problems : a line for each bad filter.
    notes : a line for each filter that is unusual but correct.
    seconds : time that the task took for the file.
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


def _list_columns(result: type[FileResult] | type[FileVerdict]) -> Mapping[str, Kind]:
    kinds = {item.name: _KINDS[str(item.type).removesuffix(" | None")] for item in fields(result)}
    return {**kinds, "path": "path"}


@dataclass
class _JobReport(TabularReport, Generic[F]):
    files: list[F] = field(default_factory=list)
    seconds: float = 0.0

    def _select(self, *statuses: str) -> list[F]:
        return [file for file in self.files if file.status in statuses]

    @property
    def failures(self) -> list[F]:
        """The files that failed, each with its `error`."""
        return self._select("failed")

    @property
    def total_files(self) -> int:
        return len(self.files)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict of plain Python values per file, for `json` or a test."""
        return [asdict(file) for file in self.files]  # type: ignore[call-overload]

    def _make_rows(self) -> Iterable[tuple[object, ...]]:
        return (tuple(vars(file).values()) for file in self.files)

    def to_pandas(self) -> Any:
        """Return `to_arrow` as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_dataframe(self, spark: SparkSession) -> DataFrame:
        """Return `to_arrow` as a Spark DataFrame. It holds the results and does not run the job again."""
        return spark.createDataFrame(self.to_arrow())

    def _summarize(self, bad: Sequence[F], label: str, first: str | None) -> list[str]:
        return [f"{len(bad):,} {label} ({first})"] if bad else []


@shown_redacted
@dataclass
class EmbedJobReport(_JobReport[FileResult]):
    """Result of `parquet_bloom.spark.embed`.

    Attributes
    ----------
    files : one result per file, in the order of their paths.
    seconds : time from call to return.
    dry_run : whether nothing was written, and the numbers are those that a run would give.
    """

    dry_run: bool = False

    _columns: ClassVar[Mapping[str, Kind]] = _list_columns(FileResult)

    @property
    def ok(self) -> bool:
        """Return whether no file failed; failed files are unchanged."""
        return not self.failures

    @property
    def embedded_files(self) -> int:
        """Number of files that got filters, or that would get some in a dry run."""
        return len(self._select("embedded", "would embed"))

    @property
    def unchanged_files(self) -> int:
        return len(self._select("unchanged"))

    @property
    def bytes_added(self) -> int:
        return sum(file.bytes_added for file in self.files)

    @property
    def num_filters(self) -> int:
        """Number of filters written, or that would be written in a dry run."""
        return sum(file.filters for file in self.files)

    def __str__(self) -> str:
        done = "would embed" if self.dry_run else "embedded"
        files = count_of(self.embedded_files, self.total_files, "file")
        parts = [f"{done} {count(self.num_filters, 'filter')} into {files}"]
        parts.append(f"{self.bytes_added:+,} bytes")
        if self.unchanged_files:
            parts.append(f"{self.unchanged_files:,} unchanged")
        parts += self._summarize(self.failures, "failed", next((file.error for file in self.failures), None))
        return ", ".join([*parts, f"{self.seconds:.1f} s"])


@shown_redacted
@dataclass
class VerifyJobReport(_JobReport[FileVerdict]):
    """Result of `parquet_bloom.spark.verify`.

    Attributes
    ----------
    files : one verdict per file, in the order of their paths.
    seconds : time from call to return.
    """

    _columns: ClassVar[Mapping[str, Kind]] = _list_columns(FileVerdict)

    @property
    def ok(self) -> bool:
        """Return whether every file could be read and all filters are correct."""
        return not self.bad and not self.failures

    @property
    def bad(self) -> list[FileVerdict]:
        """The files with a wrong filter."""
        return self._select("bad")

    @property
    def num_filters(self) -> int:
        """Number of filters checked."""
        return sum(file.filters for file in self.files)

    @property
    def problems(self) -> list[str]:
        """One line for each bad filter of all files."""
        return [problem for file in self.files for problem in file.problems]

    def __str__(self) -> str:
        counts = self.num_filters, len(self.problems), len(self._select("no filters"))
        probed = any(file.values is not None for file in self.files)
        parts = [summarize_verdicts(f" in {count(self.total_files, 'file')}", *counts, probed, "data=True")]
        parts += self._summarize(self.bad, "bad", next(iter(self.problems), None))
        parts += self._summarize(self.failures, "failed", next((file.error for file in self.failures), None))
        return ", ".join([*parts, f"{self.seconds:.1f} s"])

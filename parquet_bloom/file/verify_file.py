"""Verification of a file's filters: their locations, their headers, and the absence of false negatives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

from ..core.bloom.sbbf import check_keys
from ..core.bloom.variants import Variant
from ..errors import ParquetBloomError
from ..hashing.arrow_keys import keys_of
from ..metadata.writer_rules import Doubt
from ..redaction import shown_redacted
from ..util.messages import count
from .bloom_file import BloomFile, open
from .chunk_filter import ChunkFilter
from .column_reader import ColumnReader
from .many_files import FileReports, Progress
from .metadata_cache import MetadataCache
from .tabular_report import Kind, TabularReport

if TYPE_CHECKING:
    from ..util.given_types import FilePath, FileSystem


@shown_redacted
@dataclass
class ChunkVerdict:
    """The result of verifying one filter.

    Attributes
    ----------
    path, row_group, column : the column chunk.
    problem : what is wrong with the filter; None when nothing is.
    note : what is unusual about it, though correct.
    num_values : values of the column that were probed; None when none were.
    num_missing : false negatives: how many of these values the filter denies.
    """

    path: str
    row_group: int
    column: str
    problem: str | None = None
    note: str | None = None
    num_values: int | None = None
    num_missing: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the verdict as JSON can hold it."""
        return {
            "file": self.path,
            "row_group": self.row_group,
            "column": self.column,
            "ok": self.problem is None,
            "num_values": self.num_values,
            "num_missing": None if self.num_values is None else self.num_missing,
            "note": self.note,
            "problem": self.problem,
        }

    def __str__(self) -> str:
        text = self.problem or self.note or "good"
        return str(ParquetBloomError(text, path=self.path, row_group=self.row_group, column=self.column))


@shown_redacted
@dataclass
class VerifyReport(FileReports, TabularReport):
    """The result of `verify`, of one file or of many; `files` has the reports of each.

    Attributes
    ----------
    path : the file; what was given, for many files.
    chunks : one entry per filter.

    As a table it has a row for each filter, with what `ChunkVerdict.to_dict` has.
    """

    path: str
    chunks: list[ChunkVerdict] = field(default_factory=list)

    _columns: ClassVar[Mapping[str, Kind]] = {
        "path": "path",
        "row_group": "int",
        "column": "text",
        "ok": "bool",
        "num_values": "int",
        "num_missing": "int",
        "note": "text",
        "problem": "text",
    }

    @classmethod
    def combine(cls, path: str, reports: Sequence[Self]) -> Self:
        """Make the report of many files."""
        return cls(path, [chunk for report in reports for chunk in report.chunks])

    @property
    def problems(self) -> list[ChunkVerdict]:
        """The filters that have a problem; `str()` of each is one line."""
        return [chunk for chunk in self.chunks if chunk.problem]

    @property
    def ok(self) -> bool:
        """True when no filter has a problem, and no file failed."""
        return not self.problems and not self.errors

    def _make_rows(self) -> Iterator[tuple[object, ...]]:
        return (tuple(chunk.to_dict().values()) for chunk in self.chunks)

    def __str__(self) -> str:
        counts = len(self.chunks), len(self.problems), sum(not one.chunks for one in self.files)
        probed = any(chunk.num_values is not None for chunk in self.chunks)
        if self.is_single:
            return f"{self.path}: {summarize_verdicts('', *counts, probed, 'data=True')}"

        def cells(report: VerifyReport) -> tuple[str, str]:
            return f"{len(report.chunks):,}", f"{len(report.problems):,}"

        files = f" in {count(len(self), 'file')}"
        summary = f"{self.path}: {summarize_verdicts(files, *counts, probed, 'data=True')}"
        return self.format_table(("filters", "bad"), cells, summary)


def summarize_verdicts(files: str, filters: int, bad: int, unfiltered: int, probed: bool, option: str) -> str:
    """Summarize what was found in a line.

    Parameters
    ----------
    files : " in 3 files"; empty for one file that is named before.
    filters, bad, unfiltered : number of filters, of those with a problem, and of files that have none.
    probed : whether values were probed, or the filters' structure alone was checked.
    option : the caller's option to probe values.
    """
    if not filters:
        return f"no filters{files}"
    text = f"{count(filters, 'filter')}{files}, {f'{bad:,}' if bad else 'none'} of them bad"
    if unfiltered:
        text += f"; {count(unfiltered, 'file')} without filters"
    return text if probed else f"{text}; only their structure was checked ({option} probes the values)"


def verify_parquet(
    path: FilePath,
    data: bool = False,
    columns: Iterable[str] | None = None,
    filesystem: FileSystem | None = None,
    progress: Progress | None = None,
    *,
    variant: Variant | str | None = None,
    footers: MetadataCache | None = None,
) -> VerifyReport:
    """Check the filters of one Parquet file; the parameters are those of `scan.verify.verify_file`."""
    with open(path, filesystem, variant=variant, cache=footers) as file:
        report = VerifyReport(file.path)
        names = None if columns is None else list(columns)
        total = sum(1 for _ in file.chunks(columns=names))
        file.prefetch(file.chunks(columns=names), values=data)
        readers: dict[int, ColumnReader] = {}
        for done, chunk in enumerate(file.chunks(columns=names)):  # one at a time: each holds its bitset
            report.chunks.append(_verify_chunk(file, chunk, readers if data else None))
            if progress:
                progress(done + 1, total)
        return report


def _verify_chunk(file: BloomFile, chunk: ChunkFilter, readers: dict[int, ColumnReader] | None) -> ChunkVerdict:
    verdict = ChunkVerdict(file.path, chunk.row_group, chunk.column)
    try:
        verdict.problem = chunk.problem
        if (
            readers is not None
            and chunk.is_empty_without_null_count
            and _reader(file, chunk, readers).all_null(chunk.row_group)
        ):
            verdict.problem, verdict.num_values = None, 0
            return verdict
        if verdict.problem:
            return verdict
        if chunk.num_bytes % 32:
            verdict.note = (
                f"{chunk.num_bytes} bytes are not a multiple of 32; the last {chunk.num_bytes % 32} are unused"
            )
        elif chunk.fill > 0.9:
            verdict.note = f"saturated: {chunk.fill:.0%} of the bits are set, {chunk.fpp:.0%} of absent keys pass"
        if file.footer.doubts_of(chunk.leaf) & Doubt.FILTERS:
            verdict.note = file.footer.describe_doubts(chunk.leaf)
        if readers is not None and chunk.column_type.hashable:
            _probe_all(chunk, _reader(file, chunk, readers), verdict)
    except ParquetBloomError as error:
        verdict.problem = error.problem
    return verdict


def _reader(file: BloomFile, chunk: ChunkFilter, readers: dict[int, ColumnReader]) -> ColumnReader:
    if chunk.leaf.index not in readers:
        readers[chunk.leaf.index] = file.column_reader(chunk.leaf)
    return readers[chunk.leaf.index]


def _probe_all(chunk: ChunkFilter, reader: ColumnReader, verdict: ChunkVerdict) -> None:
    bitset = memoryview(chunk.filter)
    verdict.num_values = 0
    for array in reader.batches(chunk.row_group):
        answers = check_keys(bitset, chunk.variant.keys_for(keys_of(array), chunk.num_blocks))
        verdict.num_values += len(array) - array.null_count
        verdict.num_missing += len(answers) - int(answers.sum())
    if verdict.num_missing:
        verdict.problem = f"the filter denies {verdict.num_missing:,} of the column's {verdict.num_values:,} values"

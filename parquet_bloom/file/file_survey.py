"""Survey of one file: data from its footer, and samples of values from some row groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.bloom.distinct import HashSet
from ..core.bloom.sizing import size_for
from ..core.hash.xxh64 import hash_keys
from ..errors import EncryptedFileError, ParquetBloomError
from ..hashing.arrow_keys import keys_of
from ..hashing.column_type import ColumnType, Domain
from ..metadata.footer import SchemaLeaf
from ..metadata.page_index import read_page_header
from .bloom_file import BloomFile, open
from .chunk_bounds import decode_leaf_bounds
from .column_reader import ColumnReader
from .file_columns import find_columns, find_encoded_parts, type_of

if TYPE_CHECKING:
    from ..util.given_types import FilePath, FileSystem

Sizing = Callable[[int, float], int]
"""Returns a filter's bytes, given the number of distinct values and an fpp; can be pickled, hashed and compared."""

SKETCH = 512
"""Number of hashes stored of a row group: the smallest ones, so that two row groups can be compared."""

BOUND_BYTES = 64
"""Bytes stored of a text's min and max: writers truncate there, too."""

_HEADER_BYTES = 64  # enough for the header of a dictionary page


class Chunk(NamedTuple):
    """Metadata of one column chunk.

    Attributes
    ----------
    num_values : number of values, without nulls as far as the footer counts them.
    num_bytes : stored size.
    filter_bytes : size of its filter, by the footer; 0 if the footer does not give it, None if there is no filter.
    dictionary : whether all its values are in a dictionary.
    low, high : bounds by the statistics, as domain values; None if unknown.
    ndv : distinct values, if all are in a dictionary whose page header was read.
    """

    num_values: int
    num_bytes: int
    filter_bytes: int | None
    dictionary: bool
    low: Domain | None = None
    high: Domain | None = None
    ndv: int | None = None


@dataclass(frozen=True, eq=False)
class Sample:
    """A summary of all values of one column chunk.

    Attributes
    ----------
    num_values : number of values, without nulls.
    ndv : number of distinct values.
    sketch : the smallest hashes, ascending, at most `SKETCH`.
    """

    num_values: int
    ndv: int
    sketch: NDArray[np.uint64]


@dataclass(frozen=True)
class ColumnSurvey:
    """One column of one file.

    Attributes
    ----------
    name : its dotted path.
    type, nested, repeated : type of its values; whether it is inside a struct, and whether inside a list or map.
    chunks : one per row group that has rows.
    samples : samples of the row groups that were read.
    problem : why its chunks are unknown, or could not be read; None if there is no problem.
    sizing : the size that its writer gives a filter of such a column.
    engines : engines that use such a filter in a file of this format; None for those of `engines.engines_for`.
    barred : why such a filter would be useless, or unused, whatever the values are; None if there is no such reason.
    filter_fpp : false-positive probability of existing filters, from those that were read; None if none was.
    number : the column's number in the file, for formats whose writers refer to columns by number; else None.
    """

    name: str
    type: ColumnType
    nested: bool
    repeated: bool
    chunks: tuple[Chunk, ...]
    samples: tuple[Sample, ...] = ()
    problem: str | None = None
    sizing: Sizing = size_for
    engines: tuple[str, ...] | None = None
    barred: str | None = None
    filter_fpp: float | None = None
    number: int | None = None


@dataclass(frozen=True)
class FileSurvey:
    """The survey of one file; can be pickled, and many are merged by `verdict.Advice`.

    Attributes
    ----------
    path, num_bytes, num_rows, num_row_groups : properties of the file.
    columns : the requested columns, in schema order.
    embeddable : whether filters can be embedded into it; otherwise its writer has to rewrite it.
    together : most row groups of which some readers read all or none, such as those of a stripe.
    stride : rows per row group, where this is a writer's option; else 0.
    """

    path: str
    num_bytes: int
    num_rows: int
    num_row_groups: int
    columns: tuple[ColumnSurvey, ...]
    embeddable: bool = True
    together: int = 1
    stride: int = 0


def survey(
    path: FilePath,
    sample: int | None = None,
    columns: Collection[str] | None = None,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> FileSurvey:
    """Survey one file.

    Parameters
    ----------
    path : the file.
    sample : number of row groups to read, evenly spread; 0 reads no values, but the headers of dictionaries, which
        contain their number of values; None reads only the footer.
    columns : dotted paths, or paths of Variants; a group means all columns in it, and columns that the file lacks are
        ignored. None for all.
    filesystem, storage_options : as in `prune`.

    Raises
    ------
    ParquetBloomError
        The file or its footer cannot be read. If a column cannot be read, its `problem` says why.
    """
    with open(path, filesystem, storage_options=storage_options) as file:
        return survey_file(file, sample, columns)


def survey_file(file: BloomFile, sample: int | None = None, columns: Collection[str] | None = None) -> FileSurvey:
    """Survey an open file; see `survey`."""
    empty = file.footer.empty_row_groups
    row_groups = [row_group for row_group in file.row_groups if not empty[row_group]]
    read = spread(row_groups, sample or 0)
    leaves = _select_leaves(file.leaves, columns)
    headers = {} if sample is None else _read_dictionary_headers(file, {leaf.index for leaf in leaves})
    encoded = find_encoded_parts(file.leaves)
    surveys = []
    for leaf in leaves:
        one = _survey_column(file, leaf, row_groups, read, headers)
        surveys.append(replace(one, barred=_OF_VARIANTS) if leaf.index in encoded else one)
    return FileSurvey(file.path, file.source.size, file.footer.num_rows, len(row_groups), tuple(surveys))


_OF_VARIANTS = "it has Variants in their own encoding, which no condition compares"


def _select_leaves(leaves: list[SchemaLeaf], columns: Collection[str] | None) -> list[SchemaLeaf]:
    if columns is None:
        return leaves
    chosen = {leaf.index for name in columns for leaf in find_columns(leaves, name)}
    return [leaf for leaf in leaves if leaf.index in chosen]


def spread(items: list[int], count: int) -> list[int]:
    """Select a number of items, evenly spread; all if there are not more."""
    if not count:
        return []
    if count >= len(items):
        return items
    return [items[(2 * number + 1) * len(items) // (2 * count)] for number in range(count)]


def _read_dictionary_headers(file: BloomFile, columns: set[int]) -> dict[int, bytes]:
    """Read the first bytes of all dictionary pages of some columns at once; return them by offset."""
    chunks, end = file.footer.chunks, file.footer.start
    offsets = chunks["dictionary_page_offset"][np.isin(chunks["column"], [*columns])]
    starts = sorted({int(offset) for offset in offsets if 0 < offset < end})
    try:
        headers = file.source.read_ranges((start, min(_HEADER_BYTES, end - start)) for start in starts)
    except ParquetBloomError:
        return {}
    return dict(zip(starts, map(bytes, headers), strict=True))


def _survey_column(
    file: BloomFile, leaf: SchemaLeaf, row_groups: list[int], read: list[int], heads: Mapping[int, bytes]
) -> ColumnSurvey:
    column_type = type_of(leaf)
    chunks, samples, problem = [], [], None
    try:
        chunks = [_survey_chunk(file, row_group, leaf, column_type, heads) for row_group in row_groups]
        if read and column_type.hashable:
            reader = ColumnReader(file.source, file.footer, leaf)
            samples = [_read_sample(reader, row_group) for row_group in read]
    except ParquetBloomError as error:
        problem = str(error)
    nested = len(leaf.path) > 1
    return ColumnSurvey(leaf.name, column_type, nested, leaf.repeated, tuple(chunks), tuple(samples), problem)


def _survey_chunk(
    file: BloomFile, row_group: int, leaf: SchemaLeaf, column_type: ColumnType, heads: Mapping[int, bytes]
) -> Chunk:
    footer = file.footer
    record = file.record(row_group, leaf)
    if record["encrypted"]:
        raise EncryptedFileError("the column is encrypted", path=file.path, row_group=row_group, column=leaf.name)
    statistics = footer.statistics(record)
    low, high = decode_leaf_bounds(footer, leaf, statistics)
    nulls = statistics.null_count or 0
    dictionary = bool(record["dictionary_only"]) and record["dictionary_page_offset"] > 0
    return Chunk(
        num_values=max(0, int(record["num_values"]) - max(0, nulls)),
        num_bytes=int(record["compressed_size"]),
        filter_bytes=max(0, int(record["filter_length"])) if file.has_filter(record) else None,
        dictionary=dictionary,
        low=low[:BOUND_BYTES] if isinstance(low, bytes) else low,
        high=high[:BOUND_BYTES] if isinstance(high, bytes) else high,
        ndv=_dictionary_size(heads.get(int(record["dictionary_page_offset"]))) if dictionary else None,
    )


def _dictionary_size(head: bytes | None) -> int | None:
    """Return the number of values in a dictionary, given the header of its page."""
    try:
        header = None if head is None else read_page_header(head)
    except ParquetBloomError:
        return None
    return header.num_values if header is not None and header.is_dictionary else None


def _read_sample(reader: ColumnReader, row_group: int) -> Sample:
    distinct, num_values = HashSet(), 0
    for array in reader.batches(row_group):
        distinct.add(hash_keys(keys_of(array)))
        num_values += len(array) - array.null_count
    return make_sample(distinct, num_values)


def make_sample(distinct: HashSet, num_values: int) -> Sample:
    """Make a row group's sample from the hashes of its values."""
    hashes = distinct.to_array()
    ndv = len(hashes)
    if ndv > SKETCH:
        hashes = np.partition(hashes, SKETCH)[:SKETCH]
    return Sample(num_values, ndv, np.sort(hashes))

"""Advise on the granularity of an index: what it will weigh, and what a lookup of one key will read, by a sample."""

from __future__ import annotations

import itertools
import random
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import MalformedFooterError, NoFilesError, ParquetBloomError
from ..file.pages.page_lookup import PageLookup
from ..file.pages.row_group_batch import RowGroupBatch, RowGroups
from ..metadata.footer import SchemaLeaf
from ..predicate.key_expression import KeyExpression, hint_at_expressions, is_of_grams
from ..storage import is_local, resolve_filesystem
from ..util.arguments import require_integer
from ..util.messages import format_bytes
from . import lake_files as sources
from . import layouts
from .gram_advice import LENGTHS, PieceAdvice, choose_usual, draw_texts, measure_pieces
from .hash_files import Covered, OpenedDataFile, hash_row_group, open_to_index
from .learn_weights import learn_weights
from .postings_writer import PartShape
from .units import FILE, GRANULARITIES, ROW_GROUP, ZONE, Units

if TYPE_CHECKING:
    from ..util.given_types import FileSystem, Lake

SAMPLE = 4
"""Files that are read by default."""

_MAX_READ_SHARE = (
    0.5  # a finer index is worth its bytes if a lookup reads at most this share of what it reads by a coarser
)
_MOST_UNITS = 64  # of a file, that are asked for pieces of text
_CHEAP_BYTES = 64 << 10  # that a lookup reads: reading less takes no less time
_MAX_TEXT_SHARE = 0.25  # of the text's bytes: of logs an index takes 2 to 15 %, of random ids 30 % and more
_OTHERWISE = "whole values are found by an index of the column (`get`) or by Bloom filters, their beginnings by bounds"
_MAX_NAMED_SHARE = 0.5  # of the files that hold a value: an index that names more of them saves little


@dataclass(frozen=True)
class GranularityAdvice:
    """What an index of one granularity will cost.

    Attributes
    ----------
    granularity, zone_rows : as for `LakeIndex.create`; `zone_rows` are 0 for other granularities than zones.
    units : files, row groups or zones of the lake.
    values : values, each counted once a unit.
    bytes_a_value, num_bytes : of the index, without the table of its files, in the layout "postings".
    candidates : units that a lookup of a value that occurs names, on average.
    bytes_read, pages_read : of the key's column, to find the rows of one key, where pages can be found: in local files,
        and by a page index. The pages are None where no sampled file shows them.
    bytes_read_without_pages : the same where they cannot: in an object store, without a page index.
    pieces : of grams, how well pieces of some lengths are found. Empty for other keys.
    piece_length : of grams, the bytes of the pieces that `candidates` and what follows from them are of: 12, of shorter
        texts half of one. 0 for other keys.
    text_share : of grams, the bytes of the index as a share of the texts' own. 0 for other keys.
    """

    granularity: str
    zone_rows: int
    units: int
    values: int
    bytes_a_value: float
    num_bytes: int
    candidates: float
    bytes_read: int
    pages_read: float | None
    bytes_read_without_pages: int
    pieces: tuple[PieceAdvice, ...] = ()
    piece_length: int = 0
    text_share: float = 0.0


@dataclass(frozen=True)
class IndexAdvice:
    """Advice on an index of one column; all figures are estimates from a sample.

    Attributes
    ----------
    column : dotted name of the column, or the text of an expression.
    files, rows : of the lake.
    sampled_files : files whose values were read.
    page_index : whether all sampled files have a page index of the column.
    granularities : what an index of each costs.
    recommended : the granularity to choose; None if an index of the column is not worthwhile.
    reason : why.
    command : the command that creates such an index; empty if none is recommended.
    """

    column: str
    files: int
    rows: int
    sampled_files: int
    page_index: bool
    granularities: tuple[GranularityAdvice, ...]
    recommended: str | None
    reason: str
    command: str

    def __str__(self) -> str:
        lines = [
            f"{option.granularity}: {option.bytes_a_value:.2f} bytes a value, {option.num_bytes:,} bytes"
            f"{f', {option.text_share:.0%} of the text' if option.text_share else ''}; "
            f"{'a piece of text' if option.pieces else 'a key'} is in {option.candidates:.2f} of {option.units:,} "
            f"units, and {option.bytes_read:,} bytes are read to find its rows"
            for option in self.granularities
        ]
        lines += [self.reason, self.describe_pieces(), self.command]
        return "\n".join(filter(None, lines))

    def describe_pieces(self) -> str:
        """Return how many units are named of pieces of some lengths, by the granularity to choose or the finest."""
        options = [one for one in self.granularities if one.granularity == self.recommended] or [self.granularities[-1]]
        shares = [f"{piece.named:.0%} of {piece.length} bytes" for piece in options[0].pieces]
        units = options[0].granularity.replace("_", " ")
        return f"{units}s that a piece of text is looked for in: {', '.join(shares)}" if shares else ""


class _FileSample(NamedTuple):
    """What was seen of a file.

    Attributes
    ----------
    row_counts : of its row groups.
    values : {granularity: values, each counted once a unit}.
    hashes : the distinct ones.
    chunk_bytes, num_pages : of the key's columns, on average of its row groups; the pages are None if they are unknown.
    page_index : whether the column has a page index.
    units : of grams, {granularity: the hashes of some units, ascending}.
    texts, text_bytes : of grams, some that they are of, and how many bytes all of them have.
    """

    row_counts: tuple[int, ...]
    values: Mapping[str, int]
    hashes: NDArray[np.uint64]
    chunk_bytes: float
    num_pages: float | None
    page_index: bool
    units: Mapping[str, list[NDArray[np.uint64]]]
    texts: list[bytes]
    text_bytes: float


def advise_index(
    lake: Lake,
    column: str,
    *,
    granularities: Sequence[str] = GRANULARITIES,
    zone_rows: int | None = None,
    sample: int = SAMPLE,
    lake_filesystem: FileSystem | None = None,
    lake_storage_options: Mapping[str, object] | None = None,
) -> IndexAdvice:
    """Estimate what an index of a column will cost by each granularity, and recommend one.

    A sample of the files is read: their footers, and all values of the column.

    Parameters
    ----------
    lake : files, folders, patterns or a table, as for `LakeIndex.create`.
    column : dotted name, or an expression.
    granularities : those to consider.
    zone_rows : rows of a zone, as for `LakeIndex.create`.
    sample : number of files to read, evenly spread over the lake.
    lake_filesystem, lake_storage_options : of the lake.

    Raises
    ------
    ParquetBloomError
        There are no files, a setting is out of range, or a sampled file cannot be read, or has no such column.

    Examples
    --------
    >>> from parquet_bloom import lake
    >>> lake.advise_index("lake", "id").recommended
    'row_group'
    """
    (key,) = layouts.parse_columns(column)
    considered = [
        Units.parse(granularity, zone_rows if granularity == ZONE else None)
        for granularity in dict.fromkeys(granularities)
    ]
    considered.sort(key=lambda units: GRANULARITIES.index(units.granularity))
    if not considered:
        raise ParquetBloomError("granularities are one or more of 'file', 'row_group' and 'zone'")
    require_integer("sample", sample, 1)
    filesystem = resolve_filesystem(lake_filesystem, lake_storage_options)
    listing = sources.list_lake(lake, filesystem, lake_storage_options)
    entries = listing.entries
    if not entries:
        raise NoFilesError("the lake has no files to look at")
    chosen = np.unique(np.linspace(0, len(entries) - 1, min(sample, len(entries))).astype(int)).tolist()
    if is_of_grams(key):
        key = learn_weights(key, entries, filesystem, listing.table_columns)
    samples = []
    for number in chosen:
        opened = open_to_index(entries[number], [key], filesystem, listing.table_columns)
        with opened.file.source:
            if key in opened.doubts:
                problem = opened.doubts[key] + (hint_at_expressions(key) if key in opened.missing else "")
                raise ParquetBloomError(problem, path=entries[number].path, column=str(key))
            samples.append(_read_sample(opened, key, considered))
    scale = len(entries) / len(samples)
    options = tuple(_estimate(key, samples, units, scale, len(entries)) for units in considered)
    rows = round(sum(sum(seen.row_counts) for seen in samples) * scale)
    has_index = all(seen.page_index for seen in samples)
    finds_pages = has_index or is_local(filesystem, [entry.path for entry in entries])
    recommended, reason = _recommend(key, options, len(entries), finds_pages)
    command = "" if recommended is None else _make_command(lake, str(key), recommended)
    granularity = None if recommended is None else recommended.granularity
    return IndexAdvice(str(key), len(entries), rows, len(samples), has_index, options, granularity, reason, command)


def _read_sample(opened: OpenedDataFile, column: str, considered: Sequence[Units]) -> _FileSample:
    """Read the column of a file, once for zones and once for larger units."""
    covered, row_counts = opened.columns[column], opened.row_counts
    row_groups = opened.file.row_groups
    by_row_group = [hash_row_group(covered, row_group, 0)[0] for row_group in row_groups]
    distinct = np.unique(np.concatenate([*by_row_group, np.empty(0, np.uint64)]))
    values = {FILE: len(distinct), ROW_GROUP: sum(map(len, by_row_group))}
    kept: dict[str, list[NDArray[np.uint64]]] = {}
    texts: list[bytes] = []
    text_bytes = 0.0
    if is_of_grams(column):
        kept = {FILE: [distinct], ROW_GROUP: list(map(np.sort, by_row_group[:_MOST_UNITS]))}
        texts, text_bytes = draw_texts(opened, column, random.Random(0))
    for units in considered:
        if units.zone_rows:
            zones = (hash_row_group(covered, row_group, units.zone_rows) for row_group in row_groups)
            values[ZONE] = 0
            for hashes in itertools.chain.from_iterable(zones):
                values[ZONE] += len(hashes)
                if kept and len(kept.setdefault(ZONE, [])) < _MOST_UNITS:
                    kept[ZONE].append(np.sort(hashes))
    chunk_bytes, num_pages, page_index = _measure_chunks(opened, covered)
    return _FileSample(row_counts, values, distinct, chunk_bytes, num_pages, page_index, kept, texts, text_bytes)


def _measure_chunks(opened: OpenedDataFile, covered: Covered) -> tuple[float, float | None, bool]:
    """Return the bytes and pages of the column's chunks, on average of the row groups, and if it has a page index."""
    file, leaves = opened.file, covered.leaves
    sizes, pages = [], []
    page_index = True
    for row_group in file.row_groups:
        records = [file.record(row_group, leaf) for leaf in leaves]
        sizes.append(sum(int(record["compressed_size"]) for record in records))
        page_index &= all(record["offset_index_offset"] >= 0 for record in records)
        pages.append(_count_pages(opened, row_group, leaves))
    known = [number for number in pages if number is not None]
    num_pages = None if len(known) < len(pages) or not known else float(np.mean(known))
    return float(np.mean(sizes or [0])), num_pages, page_index


def _count_pages(opened: OpenedDataFile, row_group: int, leaves: Sequence[SchemaLeaf]) -> int | None:
    """Return how many data pages the chunks of a row group have; None if that cannot be found out, as of lists."""
    file = opened.file
    if file.source.path is None:
        found = PageLookup(file, row_group).find(leaves)
        return sum(pages.index.num_pages for pages in found.values()) if len(found) == len(leaves) else None
    if any(leaf.repeated for leaf in leaves):
        return None
    try:
        batch = RowGroupBatch.of_file(file, RowGroups([file.footer], [(0, row_group)]), {})
        return sum(batch.count_pages(leaf) for leaf in leaves)
    except MalformedFooterError:
        return None


def _estimate(
    column: str, samples: Sequence[_FileSample], units: Units, scale: float, num_files: int
) -> GranularityAdvice:
    """Estimate the cost of an index of a granularity.

    Parameters
    ----------
    scale : how many times more files the lake has than were read.
    num_files : of the lake.
    """
    values = round(sum(sample.values[units.granularity] for sample in samples) * scale)
    num_units = round(sum(units.count(sample.row_counts) for sample in samples) * scale)
    prefix_bits = layouts.find_prefix_bits(layouts.make_settings(layouts.POSTINGS), column)
    most = layouts.most_units(layouts.POSTINGS, {"prefix_bits": prefix_bits})
    layout = PartShape(prefix_bits, min(num_units, most), num_entries=values).choose_layout()
    # As `parts.postings` packs them: entries, a count a sub-bucket, an offset and a checksum a block.
    entry_bits = layout.prefix_bits - layout.bucket_bits + layout.id_bits
    num_bytes = values * entry_bits / 8 + 2**layout.bucket_bits + 12 * 2 ** (layout.bucket_bits - layout.block_bits)
    holding = _estimate_holding_files(samples, num_files)
    in_files = sum(sample.values[FILE] for sample in samples)
    candidates = holding * sum(sample.values[units.granularity] for sample in samples) / max(1, in_files)
    candidates += values / 2**prefix_bits
    pieces: tuple[PieceAdvice, ...] = ()
    usual: PieceAdvice | None = None
    if isinstance(column, KeyExpression) and column.weights is not None:
        known_units = [unit for sample in samples for unit in sample.units[units.granularity]]
        texts = [text for sample in samples for text in sample.texts]
        pieces = measure_pieces(texts, known_units, column.weights, random.Random(0))
        usual = choose_usual(pieces, texts)
        candidates = num_units * (1.0 if usual is None else usual.named)
        holding = min(holding, candidates)
    text_bytes = sum(sample.text_bytes for sample in samples) * scale
    row_groups = max(1.0, float(np.mean([len(sample.row_counts) for sample in samples])))
    chunk_bytes = float(np.mean([sample.chunk_bytes for sample in samples]))
    known = [sample.num_pages for sample in samples if sample.num_pages is not None]
    num_pages = max(1.0, float(np.mean(known))) if len(known) == len(samples) else None
    chunks = candidates * (row_groups if units.granularity == FILE else 1.0)
    share = 1.0 if num_pages is None else _estimate_share(samples, units, num_pages)
    return GranularityAdvice(
        units.granularity,
        units.zone_rows,
        num_units,
        values,
        num_bytes / values if values else 0.0,
        round(num_bytes),
        candidates,
        round(chunks * chunk_bytes * share),
        None if num_pages is None else chunks * num_pages * share,
        round(min(chunks, holding * row_groups) * chunk_bytes),
        pieces,
        0 if usual is None else usual.length,
        num_bytes / text_bytes if text_bytes else 0.0,
    )


def _estimate_share(samples: Sequence[_FileSample], units: Units, num_pages: float) -> float:
    """Return the share of a chunk's pages that have rows of a unit: of a zone, those that it overlaps."""
    if not units.zone_rows:
        return 1.0
    counts = [number for sample in samples for number in sample.row_counts if number]
    page_rows = max(1.0, float(np.mean(counts or [1])) / num_pages)
    return min(num_pages, 1.0 + (units.zone_rows - 1) / page_rows) / num_pages


def _estimate_holding_files(samples: Sequence[_FileSample], num_files: int) -> float:
    """Return how many files hold a value that one of them holds, by the values that sampled files have in common."""
    if len(samples) < 2:
        return 1.0
    total = sum(len(sample.hashes) for sample in samples)
    every, counts = np.unique(np.concatenate([sample.hashes for sample in samples]), return_counts=True)
    if not len(every):
        return 1.0
    # Of the values of a file, those of each other file.
    shared = float((counts * (counts - 1)).sum()) / (total * (len(samples) - 1))
    return 1.0 + shared * (num_files - 1)


def _recommend(
    column: str, options: Sequence[GranularityAdvice], num_files: int, finds_pages: bool
) -> tuple[GranularityAdvice | None, str]:
    """Return the granularity to choose, and why.

    Parameters
    ----------
    finds_pages : whether a lookup can read some pages of a chunk.
    """

    def reads(option: GranularityAdvice) -> int:
        return option.bytes_read if finds_pages else option.bytes_read_without_pages

    coarsest, finest = options[0], options[-1]
    if is_of_grams(column) and not finest.pieces:
        problem = f"the texts are shorter than {LENGTHS[0]} bytes: an index of pieces of them would save little"
        return None, f"{problem}; {_OTHERWISE}"
    if finest.pieces:
        large = [option for option in options if option.text_share > _MAX_TEXT_SHARE]
        options = [option for option in options if option not in large]
        size = f"would take {large[0].text_share:.0%} of the bytes of the text, as of random ids" if large else ""
        if not options:
            return None, f"an index {size} or small files; {_OTHERWISE}"
        coarsest, finest = options[0], options[-1]
        share = finest.candidates / max(1, finest.units)
        if share > _MAX_NAMED_SHARE:
            problem = f"a piece of {finest.piece_length} bytes may be in {share:.0%} of the units"
            problem += f", and a finer index {size}" if large else ": an index would save little"
            return None, f"{problem}; {_OTHERWISE}"
    named = coarsest.candidates / max(1, coarsest.units)
    if num_files > 1 and named > _MAX_NAMED_SHARE and not finest.pieces:
        return None, f"a value is in {named:.0%} of the units: an index would name most of them, and save little"
    best = coarsest
    for finer in options[1:]:
        if reads(best) > _CHEAP_BYTES and reads(finer) <= reads(best) * _MAX_READ_SHARE:
            best = finer
    name = best.granularity.replace("_", " ")
    sought = f"a piece of {best.piece_length} bytes" if best.pieces else "a key"
    reason = f"{name}: a lookup reads {format_bytes(reads(best))} of the column to find the rows of {sought}"
    if best is not coarsest:
        extra = best.num_bytes - coarsest.num_bytes
        other = coarsest.granularity.replace("_", " ")
        reason += f", not {format_bytes(reads(coarsest))} as by {other}, for {format_bytes(extra)} more of index"
    elif len(options) > 1:
        little = reads(best) <= _CHEAP_BYTES
        reason += ", so little that a finer one saves nothing" if little else "; a finer one reads not much less"
    return best, reason


def _make_command(lake: object, column: str, chosen: GranularityAdvice) -> str:
    """Return the command that creates an index of a granularity."""
    paths = [str(path) for path in lake] if isinstance(lake, list | tuple) else [str(lake)]
    words = ["parquet-bloom", "index", "create", "INDEX", "--column", column, "--granularity", chosen.granularity]
    words += ["--zone-rows", str(chosen.zone_rows)] if chosen.zone_rows else []
    for path in paths:
        words += ["--lake", path]
    return shlex.join(words)

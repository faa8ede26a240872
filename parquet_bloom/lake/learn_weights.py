"""Learn the weights of grams from a sample of a lake's texts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ParquetBloomError
from ..file.bloom_file import BloomFile
from ..file.column_reader import ColumnReader
from ..file.file_columns import find_sole_leaf, type_of
from ..hashing.column_type import Kind
from ..hashing.gram_weights import PairCounts
from ..predicate.key_expression import KeyExpression, is_of_grams
from ..storage import Entry, open_source
from ..tables.table_footers import show_as_table
from .hash_files import TableColumns
from .index_manifest import IndexManifest

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

_SAMPLE_BYTES = 4 << 20
_SAMPLED_FILES = 16
_SAMPLED_ROWS = 1 << 10  # read at once


def with_learnt_weights(
    manifest: IndexManifest, entries: Sequence[Entry], filesystem: FileSystem | None, table_columns: TableColumns
) -> IndexManifest:
    """Return the manifest of an index whose grams have weights, which are learnt from files while it has no gram.

    Weights never change once a gram depends on them; until then, files had no text that is long enough to have one. A
    file that cannot be read says nothing; whoever indexes it finds that out.

    Parameters
    ----------
    entries : the files that are to be indexed; if there are none, nothing is learnt.
    """
    held = {part.column for segment in manifest.segments for part in segment.parts if part.num_entries}
    unknown = [one for one in manifest.expressions if is_of_grams(one) and one not in held]
    if not unknown or not entries:
        return manifest
    return manifest.with_weights({one: learn_weights(one, entries, filesystem, table_columns) for one in unknown})


def learn_weights(
    expression: KeyExpression, entries: Sequence[Entry], filesystem: FileSystem | None, table_columns: TableColumns
) -> KeyExpression:
    """Return grams with weights from some 4 MB of up to 16 files, evenly spread; of more while none has a text."""
    counts = PairCounts()
    spread = np.linspace(0, len(entries) - 1, min(len(entries), _SAMPLED_FILES)).astype(int).tolist()
    for place, i in enumerate(dict.fromkeys([*spread, *range(len(entries))])):
        if place >= _SAMPLED_FILES and counts.num_bytes:
            break
        most = counts.num_bytes + _SAMPLE_BYTES // min(len(entries), _SAMPLED_FILES)
        try:
            _count_pairs(entries[i], expression, filesystem, table_columns, counts, most)
        except ParquetBloomError:
            continue
    return expression.with_weights(counts.to_weights())


def _count_pairs(
    entry: Entry,
    expression: KeyExpression,
    filesystem: FileSystem | None,
    table_columns: TableColumns,
    counts: PairCounts,
    most_bytes: int,
) -> None:
    """Count the pairs of bytes in a file's texts until there are so many bytes."""
    with closing(open_source(entry.path, filesystem, entry)) as source:
        file = BloomFile(source, None)
        file = file if table_columns is None else show_as_table(file, table_columns)
        leaf = find_sole_leaf(file.leaves, expression.columns[0], file.path)
        if leaf.repeated or type_of(leaf).kind is not Kind.STRING:
            return
        reader = ColumnReader(file.source, file.footer, leaf)
        for row_group in file.row_groups:
            for _, texts in reader.read_zones(row_group, _SAMPLED_ROWS):
                counts.add(texts)
                if counts.num_bytes >= most_bytes:
                    return

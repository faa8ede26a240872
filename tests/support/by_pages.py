"""Rows of single columns of a row group, taken out of their pages or found there, as the decoder "pages" does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.file.bloom_file import BloomFile
from parquet_bloom.file.pages.page_columns import find_page_columns
from parquet_bloom.file.pages.page_lookup import PAGE_COSTS, PageCosts
from parquet_bloom.file.pages.row_group_batch import RowGroupBatch, RowGroups, RowsOfGroups
from parquet_bloom.metadata.page_match import Targets


def read_by_pages(
    file: BloomFile,
    schema: pa.Schema,
    names: Iterable[str],
    rows: Sequence[int],
    row_group: int = 0,
    costs: PageCosts = PAGE_COSTS,
) -> dict[str, pa.Array]:
    """Read rows of those flat columns of which that is possible and, of a remote file, worthwhile."""
    columns, result = find_page_columns(file, schema), {}
    of_group = RowsOfGroups(np.array([len(rows)], np.int64), np.array(rows, np.int64))
    for name in dict.fromkeys(names):
        if name in columns and columns[name].layout is not None and not columns[name].leaf.repeated:
            try:
                groups = RowGroups([file.footer], [(0, row_group)])
                result |= RowGroupBatch.of_file(file, groups, columns, costs).read([name], of_group)
            except MalformedFooterError:  # pyarrow reports what is wrong, if anything is
                continue
    file.remember()
    return result


def search_by_pages(
    file: BloomFile,
    schema: pa.Schema,
    name: str,
    rows: Sequence[int],
    wanted: Iterable[bytes],
    costs: PageCosts = PAGE_COSTS,
) -> tuple[list[int], pa.Array] | None:
    """Find those of some rows whose stored value is one of some, and these values."""
    groups, targets = RowGroups([file.footer], [(0, 0)]), Targets([*dict.fromkeys(wanted)])
    batch = RowGroupBatch.of_file(file, groups, find_page_columns(file, schema), costs)
    found = batch.search(name, targets, file.footer.num_rows_of(0), [[(row, row + 1) for row in rows]])
    if found is None:
        return None
    assert found[1] is not None
    return found[0].rows.tolist(), found[1]

"""Where Spark's tasks look for row groups: parquet-java reads those whose middle lies in a task's range of the file."""

from __future__ import annotations

import numpy as np

from ...file.reader import BloomFile
from ...metadata.thrift_compact import read_struct
from ..session.fallback import CannotPush

_TOTAL_COMPRESSED_SIZE = 6  # field of RowGroup


def midpoints(file: BloomFile) -> list[int]:
    """The byte of the file by which parquet-java tells each row group: one range of one byte reads one row group.

    That is the start of its first column chunk plus half of its compressed size.

    Raises
    ------
    Doubt
        The footer leaves open which byte it is.
    """
    footer = file.footer
    groups, chunks = footer.row_groups, footer.chunks
    if len(groups) and (groups["num_columns"] < 1).any():
        raise CannotPush(f"{file.path}: a row group has no columns")
    first = chunks[groups["first_chunk"]]
    data, dictionary = first["data_page_offset"], first["dictionary_page_offset"]
    if (first["meta_start"] < 0).any() or (data < 0).any() or (dictionary == 0).any():
        raise CannotPush(f"{file.path}: where a row group begins is not told")
    starts = np.where((dictionary > 0) & (dictionary < data), dictionary, data)
    sizes = np.add.reduceat(chunks["compressed_size"], groups["first_chunk"]) if len(groups) else starts
    for row_group, start in enumerate(groups["start"].tolist()):
        told = read_struct(footer.data, start)[0].get(_TOTAL_COMPRESSED_SIZE)
        if told is not None:
            sizes[row_group] = told
    found = (starts + sizes // 2).tolist()
    if len(set(found)) < len(found) or (sizes < 0).any():
        raise CannotPush(f"{file.path}: two row groups have one middle")
    return found

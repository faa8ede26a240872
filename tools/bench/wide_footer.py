"""Locate, index and splice footers of 10,000 column chunks, against pyarrow's `read_metadata` of the same file.

Two shapes: 10,000 columns in one row group, and 100 columns in 100 row groups. Every chunk gets a filter's offset.
"""

from __future__ import annotations

import argparse
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, in_turn

from parquet_bloom.metadata.footer import TAIL_BYTES, Footer, find_footer
from parquet_bloom.metadata.footer_rewrite import splice_filter_locations

SHAPES = ((10_000, 1), (100, 100))
TARGET = 3  # maximum time relative to pyarrow's


def make_file(num_columns: int, num_row_groups: int) -> bytes:
    values = np.arange(num_row_groups, dtype=np.int64)
    table = pa.table({f"some_column_{i}": values for i in range(num_columns)})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=1, write_page_index=True)
    return sink.getvalue()


def measure(num_columns: int, num_row_groups: int) -> None:
    data = make_file(num_columns, num_row_groups)
    start, length = find_footer(data[-TAIL_BYTES:], len(data))
    footer = data[start : start + length]
    chunks = [(group, column) for group in range(num_row_groups) for column in range(num_columns)]
    locations = {key: (start + 1_000_047 * i, 1_000_047) for i, key in enumerate(chunks)}
    indexed = Footer(footer, start)
    leaves = indexed.leaves
    assert len(Footer(splice_filter_locations(indexed, locations), start).chunks) == len(chunks)

    seconds = in_turn(
        {
            "pyarrow: read_metadata": lambda: pq.read_metadata(pa.BufferReader(data)),
            "index": lambda: Footer(footer, start),
            "splice": lambda: splice_filter_locations(indexed, locations),
            "index and splice": lambda: splice_filter_locations(Footer(footer, start), locations),
            "what prune needs: index, leaves": lambda: Footer(footer, start).leaves,
            "  ... and every chunk's record": lambda: [
                indexed.chunk(g, leaf) for g, _ in chunks[::num_columns] for leaf in leaves
            ],
        },
        repeat=15,
    )
    print(f"{num_columns:,} columns x {num_row_groups} row groups, footer of {length / 1e6:.1f} MB")
    peer = seconds["pyarrow: read_metadata"]
    for name, taken in seconds.items():
        print(f"  {name:34} {1e3 * taken:7.1f} ms   {taken / peer:5.2f} x")
    ratio = seconds["index and splice"] / peer
    print(f"  index and splice take {ratio:.2f} x of pyarrow's time (target: less than {TARGET})\n")


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    header(
        "footers of 10,000 column chunks",
        f"peer     pyarrow {pa.__version__}: read_metadata",
        "medians of 15 runs in turn",
    )
    for shape in SHAPES:
        measure(*shape)


if __name__ == "__main__":
    main()

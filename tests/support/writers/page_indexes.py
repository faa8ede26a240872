"""Page indexes put into files, true ones and others."""

from pathlib import Path

import parquet_bloom
from parquet_bloom.metadata.page_index import read_offset_index
from parquet_bloom.metadata.thrift_compact import BINARY, I32, I64, LIST, STRUCT, TRUE, write_struct
from support.oracle import oracle
from support.writers import surgery

OFFSET_INDEX, COLUMN_INDEX = 4, 6  # fields of a ColumnChunk; each is followed by the length's


def encode_locations(pages):
    """An OffsetIndex of (offset, size, first row) triples."""
    return write_struct([(1, LIST, (STRUCT, [[(1, I64, o), (2, I32, s), (3, I64, r)] for o, s, r in pages]))])


def encode_bounds(null_pages, low, high, null_counts=None, order=0, nan_counts=None):
    """A ColumnIndex."""
    count = len(null_pages)
    # A field 1 with a list of booleans, which `write_struct` does not write.
    head = bytes([0x19, count << 4 | TRUE] if count < 15 else [0x19, 0xF0 | TRUE, *_varint(count)])
    flags = bytes(1 if value else 2 for value in null_pages)
    rest = [(2, LIST, (BINARY, low)), (3, LIST, (BINARY, high)), (4, I32, order)]
    if null_counts is not None:
        rest.append((5, LIST, (I64, null_counts)))
    if nan_counts is not None:
        rest.append((8, LIST, (I64, nan_counts)))
    encoded = write_struct([(1, I32, 0), *rest])
    assert encoded[:2] == b"\x15\x00"
    return head + flags + encoded[2:]


def _varint(value):
    assert value < 1 << 14
    return [value] if value < 128 else [value & 127 | 128, value >> 7]


def locations(path, column="a"):
    """Return a file's OffsetIndex of a column in row group 0, as triples."""
    with parquet_bloom.open(path) as file:
        record = file.record(0, file.leaf(column))
        start, length = int(record["offset_index_offset"]), int(record["offset_index_length"])
        index = read_offset_index(file.source.read_at(start, length), file.footer.num_rows_of(0))
    return list(zip(index.offsets.tolist(), index.sizes.tolist(), index.rows.tolist()[:-1], strict=True))


def with_index(path: Path, encoded, column="a", length=None, kind=OFFSET_INDEX):
    """Return the file with another index of a column, put after the data."""
    start = oracle.footer_start(path.read_bytes())
    surgery.with_bytes_before_the_footer(path, encoded)

    def change(footer):
        for chunk, _ in surgery.each_chunk(footer, column):
            chunk.set(kind, oracle.I64, start)
            chunk.set(kind + 1, oracle.I32, len(encoded) if length is None else length)

    return surgery.rewrite_footer(path, change)

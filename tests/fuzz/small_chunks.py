"""Small files of every sort of pages: where the chunks of their columns are, and what is stored in each."""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from parquet_bloom.file.pages.chunk_batch import HAS_BITS

Chunks = NDArray[np.int64]
Cell = bytes | list[bytes | None] | None
"""A stored value; of a column with lists, those of a row."""

ROWS, GROUP, FILES = 24, 12, 2
FILE, OFFSET, NUM_BYTES, NUM_ROWS, CODEC, VALUES, FLAGS = range(7)
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4": 7}


class Column(NamedTuple):
    """A column: bytes per value, whether each row has one, the levels of its lists, if it has any, and its flags."""

    width: int
    required: bool
    least: tuple[int, ...] = ()
    max_definition: int = 1
    flags: int = 0


COLUMNS = {
    "k": Column(8, True),
    "n": Column(4, False),
    "s": Column(0, False),
    "f": Column(3, False),
    "l.list.element": Column(8, False, (0, 2), 3),
    "t.list.element": Column(0, False, (0, 2), 3),
    "b": Column(1, False, flags=HAS_BITS),
}
_SMALL = {"data_page_size": 1, "write_batch_size": 4}
_DELTA = {"k": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY", "t.list.element": "DELTA_LENGTH_BYTE_ARRAY"}
_OTHERS = {
    "k": "BYTE_STREAM_SPLIT",
    "n": "DELTA_BINARY_PACKED",
    "s": "DELTA_LENGTH_BYTE_ARRAY",
    "f": "DELTA_BYTE_ARRAY",
}
_OTHERS |= {"l.list.element": "DELTA_BINARY_PACKED", "t.list.element": "DELTA_BYTE_ARRAY", "b": "RLE"}
OPTIONS: list[dict[str, Any]] = [
    {"compression": "none", "use_dictionary": False, **_SMALL},
    {"compression": "none", "data_page_version": "2.0"},
    {"compression": "snappy", **_SMALL},
    {"compression": "snappy", "use_dictionary": False, "data_page_version": "2.0", **_SMALL},
    {"compression": "zstd", "data_page_version": "2.0", **_SMALL},
    {"compression": "gzip", "use_dictionary": False},
    {"compression": "lz4", "use_dictionary": False, **_SMALL},
    {"compression": "brotli", "data_page_version": "2.0"},
    {"compression": "snappy", "use_dictionary": ["n", "f"], "column_encoding": _DELTA, **_SMALL},
    {"compression": "none", "use_dictionary": False, "large": True, **_SMALL},
    {"compression": "snappy", "large": True, "data_page_version": "2.0", **_SMALL},
    {"compression": "zstd", "large": True, **_SMALL},
    {"compression": "zstd", "use_dictionary": False, "column_encoding": _OTHERS},
    {"compression": "none", "use_dictionary": False, "column_encoding": _OTHERS, "data_page_version": "2.0", **_SMALL},
]


def _columns(number: int, large: bool) -> dict[str, list[Any]]:
    """Return the rows of a file; where they are large, no chunk of texts is read whole to take a few of its rows."""
    rows = range(number * ROWS, (number + 1) * ROWS)
    noise = np.random.default_rng(number)
    words = [noise.bytes(4000).hex() if large else f"v{row % 9}" * (row % 3) for row in rows]
    return {
        "k": [row // 2 * 7 for row in rows],
        "n": [None if row % 5 == 2 else row % 11 for row in rows],
        "s": [None if row % 7 == 3 else word for row, word in zip(rows, words, strict=True)],
        "f": [None if row % 4 == 1 else bytes([row % 6, 1, row % 3]) for row in rows],
        "l": [[row, None, row + 1][: row % 4] if row % 6 else None for row in rows],
        "t": [[word, f"v{row}"][: row % 3] if row % 8 else None for row, word in zip(rows, words, strict=True)],
        "b": [None if row % 5 == 1 else row % 3 == 0 for row in rows],
    }


_SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("n", pa.int32()),
        ("s", pa.string()),
        ("f", pa.binary(3)),
        ("l", pa.list_(pa.int64())),
        ("t", pa.list_(pa.string())),
        ("b", pa.bool_()),
    ]
)


def stored_as(value: Any, width: int) -> Any:
    """Return a value as pages have it."""
    if isinstance(value, list):
        return [stored_as(element, width) for element in value]
    if isinstance(value, int):
        return value.to_bytes(width, "little", signed=True)
    return value.encode() if isinstance(value, str) else value


@dataclass(frozen=True)
class Base:
    """Files that are alike, where the chunks of each column are, and what is in each of these."""

    files: list[bytes]
    chunks: dict[str, Chunks]
    cells: dict[str, list[list[Cell]]]


@functools.cache
def base_of(number: int) -> Base:
    options = dict(OPTIONS[number])
    large = options.pop("large", False)
    files: list[bytes] = []
    chunks: dict[str, list[list[int]]] = {name: [] for name in COLUMNS}
    cells: dict[str, list[list[Cell]]] = {name: [] for name in COLUMNS}
    for file in range(FILES):
        sink, columns = io.BytesIO(), _columns(file, large)
        pq.write_table(pa.table(columns, schema=_SCHEMA), sink, row_group_size=GROUP, **options)
        files.append(sink.getvalue())
        metadata = pq.read_metadata(sink)
        for group in range(ROWS // GROUP):
            for i in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(i)
                start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
                name = chunk.path_in_schema
                size, codec = chunk.total_compressed_size, _CODECS[chunk.compression]
                chunks[name].append([file, start, size, GROUP, codec, chunk.num_values, COLUMNS[name].flags])
                part = columns[name.partition(".")[0]][group * GROUP : (group + 1) * GROUP]
                cells[name].append([stored_as(value, COLUMNS[name].width) for value in part])
    return Base(files, {name: np.array(rows, np.int64) for name, rows in chunks.items()}, cells)

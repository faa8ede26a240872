"""file/column_reader.py, metadata/page_scan.pyx: the pages of a column chunk, beside what pyarrow decodes."""

from __future__ import annotations

import functools
import io

import pyarrow.parquet as pq
from scratch import as_file
from small_parquet import table
from support.stored_values import decoded, hash_all, open_readers
from taking import is_compared

from parquet_bloom.errors import ParquetBloomError

ALLOWED = (ParquetBloomError,)
MAX_INPUT = 1024
SLICE = 150

_OPTIONS = [
    {"compression": codec, "data_page_version": version, "use_dictionary": dictionary, "data_page_size": size}
    for codec, version, dictionary, size in (
        ("none", "1.0", True, 1 << 20),
        ("none", "2.0", True, 20),
        ("none", "1.0", False, 20),
        ("snappy", "1.0", False, 1 << 20),
        ("zstd", "2.0", True, 1 << 20),
        ("gzip", "1.0", False, 1 << 20),
        ("lz4", "2.0", False, 1 << 20),
        ("brotli", "1.0", True, 1 << 20),
    )
]
_NAMES = ["k", "s", "n", "l.list.element"]


@functools.cache
def _base(number: int) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """Return a file of one row group, and the first and the last byte of its chunks, by column."""
    rows = table()
    lists = [[key, None, key + 1][: key % 4] if key % 3 else None for key in rows["k"].to_pylist()]
    sink = io.BytesIO()
    pq.write_table(rows.append_column("l", [lists]), sink, **_OPTIONS[number])
    spans = {}
    group = pq.read_metadata(sink).row_group(0)
    for i in range(group.num_columns):
        chunk = group.column(i)
        start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
        spans[chunk.path_in_schema] = start, start + chunk.total_compressed_size
    return sink.getvalue(), spans


def run(data: bytes) -> None:
    if len(data) < 2:
        return
    name = _NAMES[data[1] % len(_NAMES)]
    complete, spans = _base(data[0] % len(_OPTIONS))
    start, end = spans[name]
    changed = complete[:start] + data[2:][: end - start].ljust(end - start, b"\0") + complete[end:]
    with as_file(changed) as path, open_readers(path) as readers:
        outcome = hash_all(readers[name].read_occurring(0))
        if is_compared(data):
            expected = decoded(readers[name], 0)
            assert outcome == expected, f"{outcome}, where pyarrow has {expected}"


@functools.cache
def seeds() -> list[bytes]:
    results = []
    for number in range(len(_OPTIONS)):
        complete, spans = _base(number)
        results += [
            bytes([number, which]) + complete[slice(*spans[name])][: MAX_INPUT - 2] for which, name in enumerate(_NAMES)
        ]
    return results

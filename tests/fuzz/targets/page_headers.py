"""metadata/thrift_compact.pyx and page_index.py: headers of pages, and the two indexes of a chunk's pages."""

from __future__ import annotations

import functools
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from taking import Taken

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata import page_index
from parquet_bloom.metadata import thrift_compact as compact

ALLOWED = (MalformedFooterError,)
MAX_INPUT = 1024


def run(data: bytes) -> None:
    taken = Taken(data)
    kind = taken.number() % 4
    if kind == 0:
        header(taken.rest())
    elif kind == 1:
        offset_index(taken)
    elif kind == 2:
        column_index(taken)
    else:
        agreement(taken)


def header(data: bytes) -> None:
    fields = compact.read_page_header_fields(data)
    assert 0 < fields["header_bytes"] <= len(data)
    page = page_index.read_page_header(data)
    assert page.header_bytes == fields["header_bytes"]
    assert page.num_values >= 0
    assert page.num_bytes >= page.header_bytes


def offset_index(taken: Taken) -> None:
    limit, rows = taken.number(), int(taken.numbers(1)[0])
    data = taken.rest()
    index = page_index.read_offset_index(data, rows)
    assert (index.sizes > 0).all()
    assert (index.offsets > 0).all()
    assert (index.counts > 0).all()
    assert (index.rows[0], index.rows[-1]) == (0, rows)
    assert index.num_pages <= len(data)
    locations = compact.read_page_locations(data, limit)
    assert len(locations) <= limit
    assert (locations == np.stack([index.offsets, index.sizes, index.rows[:-1]], axis=1)).all()


def column_index(taken: Taken) -> None:
    counts = np.maximum(taken.short_numbers(1 + taken.number() % 4), 1) & 0xFFFF
    rows = np.concatenate([[0], np.cumsum(counts)])
    index = page_index.OffsetIndex(rows[:-1] + 4, counts, rows)
    statistics = page_index.read_column_index(taken.rest(), index)
    for page in range(len(counts)):
        reported = statistics.statistics(page)
        assert reported.null_count is None or 0 <= reported.null_count <= counts[page]


def agreement(taken: Taken) -> None:
    n = taken.number() % 4
    lengths, sizes, counts = taken.short_numbers(n), taken.short_numbers(n), taken.short_numbers(n)
    heads = np.frombuffer(taken.rest(), np.uint8)
    if n == 0 or lengths.min() < 0 or sum(int(length) for length in lengths) > len(heads):
        return
    agreed = compact.pages_agree(heads, lengths, sizes, counts)
    expected, at = True, 0
    for length, size, count in zip(lengths, sizes, counts, strict=True):
        try:
            page = page_index.read_page_header(heads[at : at + int(length)].tobytes())
        except MalformedFooterError:
            expected = False
            break
        expected &= not page.is_dictionary and (page.num_bytes, page.num_values) == (size, count)
        at += int(length)
    assert agreed == expected


@functools.cache
def seeds() -> list[bytes]:
    out = io.BytesIO()
    table = pa.table({"a": [i * 7 for i in range(60)], "b": [None if i < 40 else f"{i}" for i in range(60)]})
    pq.write_table(
        table,
        out,
        write_page_index=True,
        use_dictionary=["b"],
        data_page_size=100,
        write_batch_size=10,
        compression="none",
    )
    data = out.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    _, _, chunks = compact.index_footer(footer)
    results = []
    for chunk in chunks:
        first = chunk["dictionary_page_offset"] if chunk["dictionary_page_offset"] >= 0 else chunk["data_page_offset"]
        results.append(b"\0" + data[first : first + 60])
        index = data[chunk["offset_index_offset"] :][: chunk["offset_index_length"]]
        results.append(b"\1\xff" + np.array([60], np.int64).tobytes() + index)
        pages = compact.read_page_locations(index, 99)
        counts = np.diff([*pages[:, 2], 60])
        bounds = data[chunk["column_index_offset"] :][: chunk["column_index_length"]]
        if len(pages) <= 4:
            results.append(b"\2" + bytes([len(pages) - 1]) + counts.astype(np.uint16).tobytes() + bounds)
        some = pages[:3]
        heads = b"".join(data[at : at + 30] for at in some[:, 0])
        numbers = np.concatenate([[30] * len(some), some[:, 1], counts[: len(some)]])
        results.append(b"\3" + bytes([len(some)]) + numbers.astype(np.uint16).tobytes() + heads)
    return results

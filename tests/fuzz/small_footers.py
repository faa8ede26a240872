"""Small footers that targets begin with."""

from __future__ import annotations

import functools
import io

import pyarrow as pa
import pyarrow.parquet as pq

from parquet_bloom.metadata import thrift_compact as compact


def footer_of(table: pa.Table, **options: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    data = out.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    return data[-8 - length : -8]


@functools.cache
def seeds() -> list[bytes]:
    small = pa.table({"a": [1, 2, 3]}).replace_schema_metadata(None)
    wide = pa.table({"a": [1, 2], "b": ["x", None], "c": [[1.5], []], "d": [{"e": b"1"}, None]})
    return [
        footer_of(small, store_schema=False, compression="none", write_statistics=False),
        footer_of(small, store_schema=False, row_group_size=1),
        footer_of(wide, store_schema=False, write_page_index=True),
        *seed_footers(),
    ]


def seed_footers() -> list[bytes]:
    """Footers with filters, with fields out of order and far apart, and with encrypted columns."""
    meta = [
        (1, compact.I32, 2),
        (3, compact.LIST, (compact.BINARY, [b"a", b"b"])),
        (5, compact.I64, 10),
        (9, compact.I64, 4),
    ]
    located = [*meta, (14, compact.I64, 100), (15, compact.I32, 48), (16, compact.I64, 5), (31, compact.BINARY, b"?")]
    after = [(31, compact.I64, 7), *meta, (20, compact.I64, 1), (15, compact.I32, 4), (14, compact.I64, 9)]
    footers = []
    for struct in (meta, located, after):
        chunk = [(2, compact.I64, 0), (3, compact.STRUCT, struct), (4, compact.I64, 7), (5, compact.I32, 8)]
        hidden = [(2, compact.I64, 0), (8, compact.STRUCT, [(1, compact.STRUCT, [])]), (9, compact.BINARY, b"secret")]
        group = [(1, compact.LIST, (compact.STRUCT, [chunk, hidden, chunk])), (2, compact.I64, 5), (3, compact.I64, 10)]
        fields = [(1, compact.I32, 2), (2, compact.LIST, (compact.STRUCT, [])), (3, compact.I64, 20)]
        footers.append(
            compact.write_struct(
                [*fields, (4, compact.LIST, (compact.STRUCT, [group, group])), (6, compact.BINARY, b"us")]
            )
        )
    return footers

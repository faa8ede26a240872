"""Thrift structs: any, those of a footer, of many footers at once, headers of pages and page indexes."""

from __future__ import annotations

import functools
import io
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TException, TType
from thrift.transport.TTransport import TMemoryBuffer

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzzing import Choices, fuzz

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata import page_index
from parquet_bloom.metadata import thrift_compact as compact
from parquet_bloom.metadata.footer import Footer, as_type


@functools.cache
def good_structs() -> list[bytes]:
    inner = [(1, compact.I64, -1), (40, compact.BINARY, b"text"), (41, compact.STRUCT, [])]
    lists = [(1, compact.LIST, (compact.BINARY, [b"a", b"bc"] * 9)), (2, compact.LIST, (compact.I64, [1, 2]))]
    created = [
        compact.write_struct([(4, compact.I64, 1 << 62), (5, compact.I32, -7), (300, compact.BINARY, b"\x00" * 9)]),
        compact.write_struct([(1, compact.LIST, (compact.STRUCT, [inner, inner])), (2, compact.STRUCT, inner)]),
        compact.write_struct(lists),
        b"\x11\x12\x13\x05\x17" + struct.pack("<d", 1.5) + b"\x1d" + bytes(16),
    ]
    created[-1] += b"\x1b\x02\x58\x02\x01a\x04\x01b\x1a\x25\x02\x04\x00"
    return [b"\1" + data for data in created]


@fuzz(MalformedFooterError, good=good_structs, longest=512, examples=30)
def test_compact_structs(data: bytes) -> None:
    """What is read is what Apache Thrift reads, and is written again."""

    def by_thrift(data: bytes) -> tuple[dict[int, Any], int] | None:
        """Numbers, bytes and doubles of a struct, and its end; None where it is refused, or holds others."""
        buffer = TMemoryBuffer(data)
        protocol = TCompactProtocol(buffer, string_length_limit=1 << 16, container_length_limit=1 << 10)
        readers = {TType.STRING: protocol.readBinary, TType.DOUBLE: protocol.readDouble, TType.BOOL: protocol.readBool}
        readers |= dict.fromkeys((TType.I16, TType.I32, TType.I64), protocol.readI64)
        fields: dict[int, Any] = {}
        protocol.readStructBegin()
        while True:
            try:
                _, kind, number = protocol.readFieldBegin()
                if kind == TType.STOP:
                    return fields, buffer.cstringio_buf.tell()
                if not -32768 <= number <= 32767 or kind not in readers:
                    return None
                fields.pop(number, None)
                value = fields[number] = readers[kind]()
            except (
                TException,
                EOFError,
                struct.error,
                KeyError,
                AssertionError,
                TypeError,
                ValueError,
                RecursionError,
            ):
                return None
            if type(value) is int and not -(1 << 63) <= value < 1 << 63:
                return None  # more than ten bytes hold, which Python has room for

    start = data[0] % 4 if data else 0
    values, end = compact.read_struct(data, min(start, len(data)))
    assert start < end <= len(data)
    kinds = {bytes: compact.BINARY, int: compact.I64}
    plain = [(number, kinds[type(value)], value) for number, value in values.items() if type(value) in kinds]
    again, _ = compact.read_struct(compact.write_struct(plain))
    assert again == {number: value for number, _, value in plain}
    theirs = by_thrift(data[start:])
    if theirs is not None:
        fields, theirs_end = theirs
        assert theirs_end == end - start
        for number, value in fields.items():
            assert repr(values[number]) == repr(value), number


@functools.cache
def good_footers() -> list[bytes]:
    """Footers of pyarrow; and with filters, with fields out of order and far apart, and with encrypted columns."""

    def footer_of(table: pa.Table, **options: Any) -> bytes:
        out = io.BytesIO()
        pq.write_table(table, out, store_schema=False, **options)
        data = out.getvalue()
        return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]

    small = pa.table({"a": [1, 2, 3]})
    wide = pa.table({"a": [1, 2], "b": ["x", None], "c": [[1.5], []], "d": [{"e": b"1"}, None]})
    footers = [
        footer_of(small, compression="none", write_statistics=False),
        footer_of(small, row_group_size=1),
        footer_of(wide, write_page_index=True),
    ]
    names = (3, compact.LIST, (compact.BINARY, [b"a", b"b"]))
    meta = [(1, compact.I32, 2), names, (5, compact.I64, 10), (9, compact.I64, 4)]
    located = [*meta, (14, compact.I64, 100), (15, compact.I32, 48), (16, compact.I64, 5), (31, compact.BINARY, b"?")]
    after = [(31, compact.I64, 7), *meta, (20, compact.I64, 1), (15, compact.I32, 4), (14, compact.I64, 9)]
    for metadata in (meta, located, after):
        chunk = [(2, compact.I64, 0), (3, compact.STRUCT, metadata), (4, compact.I64, 7), (5, compact.I32, 8)]
        hidden = [(2, compact.I64, 0), (8, compact.STRUCT, [(1, compact.STRUCT, [])]), (9, compact.BINARY, b"secret")]
        group = [(1, compact.LIST, (compact.STRUCT, [chunk, hidden, chunk])), (2, compact.I64, 5), (3, compact.I64, 10)]
        fields = [(1, compact.I32, 2), (2, compact.LIST, (compact.STRUCT, [])), (3, compact.I64, 20)]
        fields += [(4, compact.LIST, (compact.STRUCT, [group, group])), (6, compact.BINARY, b"us")]
        footers.append(compact.write_struct(fields))
    return footers


@fuzz(MalformedFooterError, good=good_footers, examples=30)
def test_footer_cursor(data: bytes) -> None:
    """A footer is indexed, its values are read; filters that are put into it stand there, and all else as before."""
    file, row_groups, chunks = compact.index_footer(data)
    assert file["end"] <= len(data)
    assert row_groups["num_columns"].sum() == len(chunks) <= len(data)
    for chunk in chunks[:8]:
        assert 0 <= chunk["start"] <= len(data)
        for name, kind in (("path_start", compact.LIST), ("statistics_start", compact.STRUCT)):
            if chunk[name] >= 0:
                compact.read_value(data, int(chunk[name]), kind)
        if chunk["meta_start"] >= 0:
            _, end = compact.read_struct(data, int(chunk["meta_start"]))
            assert end == chunk["meta_end"]

    chunks = chunks[chunks["meta_start"] >= 0]
    every = slice(None, None, 1 + data[-1] % 3)
    some = chunks[every]
    positions = 1 + np.arange(len(some)) * 12345
    positions[1::3] = -1
    spliced = compact.splice_filters(data, some["meta_start"].copy(), some["meta_end"].copy(), positions, positions + 1)
    _, _, after = compact.index_footer(spliced)
    after = after[after["meta_start"] >= 0]
    assert len(after) == len(chunks)
    for name in compact.CHUNK_DTYPE.names:
        if not name.endswith(("start", "end")) and name not in ("filter_fields", "filter_offset", "filter_length"):
            assert (after[name] == chunks[name]).all(), name
    changed = after[every]
    assert (changed["filter_offset"] == positions).all()
    assert (changed["filter_length"] == np.where(positions < 0, -1, positions + 1)).all()
    assert (changed["filter_fields"] == np.where(positions < 0, 0, 2)).all()
    for old, new, location in zip(some[:4], changed[:4], positions.tolist(), strict=False):
        fields, _ = compact.read_struct(data, int(old["meta_start"]))
        others, _ = compact.read_struct(spliced, int(new["meta_start"]))
        expected = {number: repr(value) for number, value in fields.items() if number not in (14, 15)}
        if location >= 0:
            expected |= {14: repr(location), 15: repr(location + 1)}
        assert {number: repr(value) for number, value in others.items()} == expected


@fuzz(good=good_footers)
def test_many_footers(data: bytes) -> None:
    """What `index_footer` and `Footer` say of each one is said of many at once."""
    good = good_footers()[0]
    footers = [good, data, data[: len(data) // 2], b"", good]
    starts = np.full(len(footers), 1 << 20)
    files, schemas, row_groups, first_row_group, chunks, first_chunk, apart = compact.index_footers(footers, starts)
    assert first_row_group[-1] == len(row_groups)
    assert first_chunk[-1] == len(chunks)
    assert files["is_usual"][0]
    assert files[0] == files[4]
    assert schemas[4] == schemas[0] == 0
    for i, footer in enumerate(footers):
        if not files["is_usual"][i]:
            assert schemas[i] == i
            continue
        alone, groups, own = compact.index_footer(footer)
        positions = dict(enumerate(files["positions"][i].tolist()))
        numbered = {number: at for number, at in alone.items() if isinstance(number, int)}
        assert {number: at for number, at in positions.items() if at >= 0} == numbered
        assert (files["num_rows"][i], files["end"][i]) == (alone.get("num_rows", 0), alone["end"])
        assert (files["ends"][i] >= files["positions"][i]).all()
        like, schema = int(schemas[i]), slice(int(files["positions"][i, 2]), int(files["ends"][i, 2]))
        assert footer[schema] == footers[like][int(files["positions"][like, 2]) :][: schema.stop - schema.start]
        own_groups = row_groups[first_row_group[i] : first_row_group[i + 1]].copy()
        own_groups["first_chunk"] -= first_chunk[i]
        assert own_groups.tobytes() == groups.tobytes()
        assert chunks[first_chunk[i] : first_chunk[i + 1]].tobytes() == own.tobytes()
        try:
            whole = Footer(footer, 1 << 20)
        except MalformedFooterError:
            continue
        assert bool(apart[i]) == whole.filters_apart

    which, path = np.repeat(np.arange(len(footers)), np.diff(first_chunk)), b"\x18\x01a"
    places = chunks["statistics_start"].copy(), chunks["path_start"].copy()
    records = compact.read_statistics(footers, which, *places, path)
    for i, start, at, record in zip(which.tolist(), *(place.tolist() for place in places), records, strict=True):
        if not record["is_usual"]:
            continue
        assert at < 0 or footers[i][at:].startswith(path)
        fields = compact.read_struct(footers[i], start)[0] if start >= 0 else {}
        null_count = as_type(fields.get(3), int)
        assert (null_count is not None) == record["has_null_count"]
        assert (null_count or 0) == record["null_count"]
        for bound, number in enumerate((6, 5, 2, 1)):
            stored = as_type(fields.get(number), bytes)
            begin, length = int(record["start"][bound]), int(record["length"][bound])
            assert (stored is None) == (begin < 0)
            if stored is not None:
                assert footers[i][begin : begin + length] == stored
                assert int(record["number"][bound]) == int.from_bytes(stored[:8], "little")


@functools.cache
def good_page_headers() -> list[bytes]:
    out = io.BytesIO()
    table = pa.table({"a": [i * 7 for i in range(60)], "b": [None if i < 40 else f"{i}" for i in range(60)]})
    pages = {"write_page_index": True, "data_page_size": 100, "write_batch_size": 10}
    pq.write_table(table, out, use_dictionary=["b"], compression="none", **pages)
    data = out.getvalue()
    results = []
    for chunk in compact.index_footer(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])[2]:
        first = chunk["dictionary_page_offset"] if chunk["dictionary_page_offset"] >= 0 else chunk["data_page_offset"]
        results.append(b"\0" + data[first : first + 60])
        index = data[chunk["offset_index_offset"] :][: chunk["offset_index_length"]]
        results.append(b"\1\xff" + np.array([60], np.int64).tobytes() + index)
        locations = compact.read_page_locations(index, 99)
        counts = np.diff([*locations[:, 2], 60])
        bounds = data[chunk["column_index_offset"] :][: chunk["column_index_length"]]
        if len(locations) <= 4:
            results.append(b"\2" + bytes([len(locations) - 1]) + counts.astype(np.uint16).tobytes() + bounds)
        some = locations[:3]
        heads = b"".join(data[at : at + 30] for at in some[:, 0])
        numbers = np.concatenate([[30] * len(some), some[:, 1], counts[: len(some)]])
        results.append(b"\3" + bytes([len(some)]) + numbers.astype(np.uint16).tobytes() + heads)
    return results


@fuzz(MalformedFooterError, good=good_page_headers, longest=1024, examples=30)
def test_page_headers(data: bytes) -> None:
    """Headers of pages, the two indexes of a chunk's pages, and whether headers and index agree."""
    choices = Choices(data)
    kind = choices.number() % 4
    if kind == 0:
        data = choices.rest()
        fields = compact.read_page_header_fields(data)
        assert 0 < fields["header_bytes"] <= len(data)
        page = page_index.read_page_header(data)
        assert page.header_bytes == fields["header_bytes"]
        assert page.num_values >= 0
        assert page.num_bytes >= page.header_bytes
    elif kind == 1:
        limit, rows = choices.number(), int(choices.numbers(1)[0])
        data = choices.rest()
        index = page_index.read_offset_index(data, rows)
        for numbers in (index.sizes, index.offsets, index.counts):
            assert (numbers > 0).all()
        assert (index.rows[0], index.rows[-1]) == (0, rows)
        assert index.num_pages <= len(data)
        locations = compact.read_page_locations(data, limit)
        assert len(locations) <= limit
        assert (locations == np.stack([index.offsets, index.sizes, index.rows[:-1]], axis=1)).all()
    elif kind == 2:
        counts = np.maximum(choices.short_numbers(1 + choices.number() % 4), 1) & 0xFFFF
        edges = np.concatenate([[0], np.cumsum(counts)])
        index = page_index.OffsetIndex(edges[:-1] + 4, counts, edges)
        statistics = page_index.read_column_index(choices.rest(), index)
        for number in range(len(counts)):
            reported = statistics.statistics(number)
            assert reported.null_count is None or 0 <= reported.null_count <= counts[number]
    else:
        n = choices.number() % 4
        lengths, sizes, counts = choices.short_numbers(n), choices.short_numbers(n), choices.short_numbers(n)
        heads = np.frombuffer(choices.rest(), np.uint8)
        if n == 0 or lengths.min() < 0 or sum(lengths.tolist()) > len(heads):
            return
        expected, at = True, 0
        for length, size, count in zip(lengths.tolist(), sizes, counts, strict=True):
            try:
                page = page_index.read_page_header(heads[at : at + length].tobytes())
            except MalformedFooterError:
                expected = False
                break
            expected &= not page.is_dictionary and (page.num_bytes, page.num_values) == (size, count)
            at += length
        assert compact.pages_agree(heads, lengths, sizes, counts) == expected

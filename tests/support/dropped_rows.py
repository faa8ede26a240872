"""Files written anew without some rows, and a check that nothing else about them is another."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom
from parquet_bloom.file.bloom_file import BloomFile
from parquet_bloom.file.drop_rows import DroppedRows, drop_rows
from parquet_bloom.storage import open_source, rewrite
from support.oracle import oracle
from support.oracle.oracle import Struct
from support.writers import peers

DATA, INDEX, DICTIONARY, SIZE, ENCODINGS, CODEC, STATISTICS = 9, 10, 11, 7, 2, 4, 12


def without(path: Path, rows: Iterable[int], target: Path) -> DroppedRows:
    """Write a file anew without some rows."""
    with open_source(path) as source, rewrite(source, target) as new:
        report = drop_rows(BloomFile(source), np.array(sorted(rows), np.int64), new)
        new.commit()
    return report


def chunks(path: Path) -> list[list[tuple[Struct, bytes, dict[str, bytes]]]]:
    """For each row group and column the chunk's metadata, its bytes, and those of its filter and page index.

    Of the offset index it is what the places of pages are, counted from the beginning of the chunk.
    """
    data, groups = path.read_bytes(), []
    for group in oracle.read_footer(path).value(4).items:
        found = []
        for chunk in group.value(1).items:
            metadata = chunk.value(3)
            start = min(metadata.value(number) for number in (DATA, DICTIONARY) if number in metadata)
            parts = {}
            for name, fields, offset, length in (
                ("filter", metadata, oracle.OFFSET, oracle.LENGTH),
                ("column index", chunk, 6, 7),
            ):
                if offset in fields and length in fields:
                    parts[name] = data[fields.value(offset) : fields.value(offset) + fields.value(length)]
            if 4 in chunk:
                index = oracle.read_struct(data, chunk.value(4))[0]
                pages = [(page.value(1) - start, page.value(2), page.value(3)) for page in index.value(1).items]
                assert pages[0][0] == metadata.value(DATA) - start
                parts["offset index"] = repr(pages).encode()
            found.append((metadata, data[start : start + metadata.value(SIZE)], parts))
        groups.append(found)
    return groups


def decoded_pages(path: Path) -> bytes:
    """Return all bytes of pages and dictionaries, decompressed."""
    data, found = path.read_bytes(), []
    for group in oracle.read_footer(path).value(4).items:
        for chunk in group.value(1).items:
            metadata = chunk.value(3)
            start = min(metadata.value(number) for number in (DATA, DICTIONARY) if number in metadata)
            end = start + metadata.value(SIZE)
            while start < end:
                header, body = oracle.read_struct(data, start)
                start = body + header.value(3)
                found.append(_unpack(data[body:start], metadata.value(CODEC), header))
    return b"".join(found)


def _unpack(page: bytes, codec: int, header: Struct) -> bytes:
    if not codec or (8 in header and 7 in header.value(8) and not header.value(8).value(7)):
        return page
    levels = sum(header.value(8).value(number) for number in (5, 6)) if 8 in header else 0  # of version 2, apart
    unpacked = header.value(2) - levels
    name = {1: "snappy", 6: "zstd"}[codec]
    return page[:levels] + bytes(pa.decompress(page[levels:], unpacked, name) if unpacked else b"")


def assert_without(path: Path, rows: Iterable[int], target: Path, *, trims: bool = False) -> DroppedRows:
    """Write a file anew without some rows, and check it against the old one; `trims`: chunks may be encoded anew."""
    gone = sorted(rows)
    report = without(path, gone, target)
    before, after = pq.read_table(path), pq.read_table(target, page_checksum_verification=True)
    kept = np.setdiff1d(np.arange(before.num_rows), gone)
    assert after.schema.equals(before.schema, check_metadata=True)
    for (name, expected), (_, found) in zip(
        peers.bits_of(peers.take_rows(before, kept)), peers.bits_of(after), strict=True
    ):
        # NaN in lists and structs is compared by its text, and what is dictionary-encoded there by its values.
        assert expected == found or str(expected) == str(found) or expected.to_pylist() == found.to_pylist(), name
    assert (report.num_rows, report.rows_left) == (len(gone), len(kept))
    assert (report.old_size, report.new_size) == (path.stat().st_size, target.stat().st_size)
    num_others = assert_same_elsewhere(path, gone, target, trims)
    assert num_others == (report.trimmed if trims else 0)
    verified = parquet_bloom.verify(target, data=True)
    assert verified.ok or not parquet_bloom.verify(path, data=True).ok, [str(one) for one in verified.problems]
    return report


def assert_same_elsewhere(path: Path, gone: list[int], target: Path, trims: bool = False) -> int:
    """Check that row groups which lost no row are copied; return how many of their chunks are not, if some may be."""
    old, new = oracle.read_footer(path), oracle.read_footer(target)
    for number in {*old, *new} - {3, 4}:
        assert old[number] == new[number], number
    copies, end, num_others = chunks(target), 0, 0
    for group, columns in zip(old.value(4).items, chunks(path), strict=True):
        first, end = end, end + group.value(3)
        num_gone = int(np.searchsorted(gone, end) - np.searchsorted(gone, first))
        if num_gone == group.value(3) and num_gone:
            continue
        for (metadata, data, parts), (new_metadata, new_data, new_parts) in zip(columns, copies.pop(0), strict=True):
            assert new_metadata.value(CODEC) == metadata.value(CODEC)
            assert new_metadata.value(3).items == metadata.value(3).items
            if not num_gone and trims and data != new_data:
                num_others += 1
            elif not num_gone:
                assert (data, parts) == (new_data, new_parts)
                offsets = {DATA, INDEX, DICTIONARY, oracle.OFFSET}
                assert {key: new_metadata[key] for key in {*new_metadata} - offsets} == {
                    key: metadata[key] for key in {*metadata} - offsets
                }
    assert not copies
    return num_others


def read_with(engine: str, path: Path) -> pa.Table:
    """Return all rows of a file as another engine reads them."""
    import duckdb
    import polars as pl

    if engine == "duckdb":
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.sql(f"SELECT * FROM '{path}'").to_arrow_table()
    return pl.read_parquet(path).to_arrow()

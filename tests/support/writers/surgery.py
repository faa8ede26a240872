"""Parquet files that no available writer makes: relabelled columns, moved filters, encryption, and the like."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption

from support.oracle import oracle
from support.oracle.oracle import BINARY, BOOL, I8, I32, I64, STRUCT, Struct

STATISTICS, FILE_PATH, COLUMN_ORDERS = 12, 1, 7


def rewrite_footer(path: Path, change: Callable[[Struct], None]) -> Path:
    """Let `change` loose on a file's footer, in place."""
    footer = oracle.read_footer(path)
    change(footer)
    oracle.write_footer(path, footer)
    return path


def each_chunk(footer: Struct, column: str | None = None) -> Iterable[tuple[Struct, Struct]]:
    """Every column chunk (of one column) and its metadata."""
    for group in footer.value(oracle.ROW_GROUPS).items:
        for chunk in group.value(oracle.COLUMNS).items:
            if column is None or oracle.dotted(chunk.value(oracle.META_DATA)) == column:
                yield chunk, chunk.value(oracle.META_DATA)


def schema_element(footer: Struct, name: str) -> Struct:
    (result,) = [element for element in footer.value(2).items if element.value(4) == name.encode()]
    return result


def relabel(path: Path, column: str, logical: Struct | None, physical: int | None = None) -> Path:
    """Give a column another annotation (and physical type); its statistics, of another order, go."""

    def change(footer: Struct) -> None:
        element = schema_element(footer, column)
        for number in (6, 7, 8, 10):
            element.pop(number, None)
        if logical is not None:
            element.set(10, STRUCT, logical)
        if physical is not None:
            element.set(1, I32, physical)
        for _, metadata in each_chunk(footer, column):
            metadata.pop(STATISTICS, None)
            if physical is not None:
                metadata.set(1, I32, physical)

    return rewrite_footer(path, change)


def decimal_annotation(precision: int, scale: int) -> Struct:
    return Struct({5: (STRUCT, Struct({1: (I32, scale), 2: (I32, precision)}))})


def integer_annotation(bits: int, signed: bool) -> Struct:
    return Struct({10: (STRUCT, Struct({1: (I8, bits), 2: (BOOL, signed)}))})


def without_statistics(path: Path) -> Path:
    def change(footer: Struct) -> None:
        for _, metadata in each_chunk(footer):
            metadata.pop(STATISTICS, None)

    return rewrite_footer(path, change)


def without_lengths(path: Path) -> Path:
    """Filters as older writers leave them: with an offset, and no length."""

    def change(footer: Struct) -> None:
        for _, metadata in each_chunk(footer):
            metadata.pop(oracle.LENGTH, None)

    return rewrite_footer(path, change)


def in_another_file(path: Path, column: str) -> Path:
    def change(footer: Struct) -> None:
        for chunk, _ in each_chunk(footer, column):
            chunk.set(FILE_PATH, BINARY, b"elsewhere.parquet")

    return rewrite_footer(path, change)


def with_bytes_before_the_footer(path: Path, extra: bytes) -> Path:
    data = path.read_bytes()
    start = oracle.footer_start(data)
    path.write_bytes(data[:start] + extra + data[start:])
    return path


def with_filter_moved_between_row_groups(path: Path, column: str) -> Path:
    """Put the filter of the first row group's column right after that row group, as some writers do.

    All that comes later is moved by as many bytes, so every offset in the footer is another.
    """
    data = path.read_bytes()
    footer = oracle.read_footer(path)
    stored = oracle.filters(path)[0, column]
    block = data[stored.offset : stored.offset + (stored.length or 0)]
    here = min(first_byte(metadata) for _, metadata in chunks_of_group(footer, 1))

    def moved(offset: int) -> int:
        return offset + len(block) if offset >= here else offset

    for group in footer.value(oracle.ROW_GROUPS).items:
        group.pop(5, None)  # file_offset
        for chunk in group.value(oracle.COLUMNS).items:
            metadata = chunk.value(oracle.META_DATA)
            for fields, numbers in ((metadata, (9, 10, 11, oracle.OFFSET)), (chunk, (2, 4, 6))):
                for number in numbers:
                    if number in fields:
                        fields[number] = (fields[number][0], moved(fields.value(number)))
    oracle.column_metadata(footer, 0, column)[oracle.OFFSET] = (I64, here)
    body = data[:here] + block + data[here : oracle.footer_start(data)]
    path.write_bytes(oracle.with_footer(body, oracle.write_struct(footer)))
    return path


def chunks_of_group(footer: Struct, row_group: int) -> list[tuple[Struct, Struct]]:
    group = footer.value(oracle.ROW_GROUPS, [row_group])
    return [(chunk, chunk.value(oracle.META_DATA)) for chunk in group.value(oracle.COLUMNS).items]


def first_byte(metadata: Struct) -> int:
    return min(metadata.value(number) for number in (9, 11) if number in metadata)


def encryption_properties(*, plaintext_footer: bool, columns: tuple[str, ...]) -> Any:
    """Return pyarrow's properties for encrypting a file; the keys are not stored."""

    class Keys(encryption.KmsClient):
        def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
            return base64.b64encode(master_key_identifier.encode() + key_bytes)

        def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
            return base64.b64decode(wrapped_key)[len(master_key_identifier) :]

    configuration = encryption.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": list(columns)}, plaintext_footer=plaintext_footer
    )
    factory = encryption.CryptoFactory(lambda _: Keys())
    return factory.file_encryption_properties(encryption.KmsConnectionConfig(), configuration)


def encrypted(path: Path, table: pa.Table, *, plaintext_footer: bool, columns: tuple[str, ...]) -> Path:
    """A file with an encrypted footer, or with a signed one; `columns` have a key of their own."""
    properties = encryption_properties(plaintext_footer=plaintext_footer, columns=columns)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    return path


def with_bitsets(path: Path, bitsets: list[bytes], *, lengths: bool = True, statistics: bool = True) -> Path:
    """A file of one int64 column "key", a row group a bitset, each of which is the row group's filter as it is."""
    table = pa.table({"key": pa.array(range(10 * len(bitsets)), pa.int64())})
    pq.write_table(table, path, row_group_size=10, write_statistics=statistics)
    data, footer = path.read_bytes(), oracle.read_footer(path)
    body = bytearray(data[: oracle.footer_start(data)])
    for row_group, bitset in enumerate(bitsets):
        metadata = oracle.column_metadata(footer, row_group, "key")
        stored = oracle.write_struct(oracle.filter_header(len(bitset))) + bitset
        metadata.set(oracle.OFFSET, oracle.I64, len(body))
        if lengths:
            metadata.set(oracle.LENGTH, oracle.I32, len(stored))
        body += stored
    path.write_bytes(oracle.with_footer(bytes(body), oracle.write_struct(footer)))
    return path


def with_order(path: Path, column: str, member: int | None) -> Path:
    """Declare the order of a column's bounds: a member of the union ColumnOrder, or None for an empty union."""

    def change(footer: Struct) -> None:
        leaves = [element.value(4).decode() for element in footer.value(2).items if 1 in element]
        order = Struct() if member is None else Struct({member: (STRUCT, Struct())})
        footer.value(COLUMN_ORDERS).items[leaves.index(column)] = order

    return rewrite_footer(path, change)


def with_bounds(path: Path, column: str, bounds: list[tuple[bytes, bytes] | None], **counts: int) -> Path:
    """Give a column other statistics, row group by row group: the bounds, and `null_count`, `nan_count` if given."""

    def change(footer: Struct) -> None:
        for (_, metadata), both in zip(each_chunk(footer, column), bounds, strict=True):
            fields = {3: (I64, counts["null_count"])} if "null_count" in counts else {}
            if both is not None:
                fields |= {5: (BINARY, both[1]), 6: (BINARY, both[0])}
            if "nan_count" in counts:
                fields[9] = (I64, counts["nan_count"])
            metadata.set(STATISTICS, STRUCT, Struct(fields))

    return rewrite_footer(path, change)


def change_pages(path: Path, column: str, change: Callable[[Struct], None], row_group: int | None = None) -> Path:
    """Let `change` loose on the headers of a column's pages, which must keep their lengths."""
    data, footer = bytearray(path.read_bytes()), oracle.read_footer(path)
    chunks = [metadata for _, metadata in each_chunk(footer, column)]
    for metadata in chunks if row_group is None else [chunks[row_group]]:
        at = first_byte(metadata)
        end = at + metadata.value(7)
        while at < end:
            header, body = oracle.read_struct(bytes(data), at)
            num_bytes = header.value(3)
            change(header)
            changed = oracle.write_struct(header)
            assert len(changed) == body - at
            data[at:body] = changed
            at = body + num_bytes
    path.write_bytes(bytes(data))
    return path


def with_page_encoding(path: Path, column: str, encoding: int, row_group: int | None = None) -> Path:
    """Say of a column's data pages that their values are in another encoding, of a number below 64."""

    def change(header: Struct) -> None:
        for number, field in ((5, 2), (8, 4)):
            if number in header:
                header.value(number)[field] = (I32, encoding)

    return change_pages(path, column, change, row_group)


def with_page_type(path: Path, column: str, kind: int, row_group: int | None = None) -> Path:
    """Say of a column's data pages that they are of another type, of a number below 64."""

    def change(header: Struct) -> None:
        if 7 not in header:
            header[1] = (I32, kind)

    return change_pages(path, column, change, row_group)


def with_declared_encoding(path: Path, column: str, encoding: int) -> Path:
    """Let the footer say that a column's values are in another encoding."""

    def change(footer: Struct) -> None:
        for _, metadata in each_chunk(footer, column):
            metadata.value(2).items[:] = [encoding]
            for statistics in metadata.value(13).items if 13 in metadata else []:
                if statistics.value(1) != 2:
                    statistics[2] = (I32, encoding)

    return rewrite_footer(path, change)


def with_codec(path: Path, column: str, codec: int) -> Path:
    def change(footer: Struct) -> None:
        for _, metadata in each_chunk(footer, column):
            metadata[4] = (I32, codec)

    return rewrite_footer(path, change)

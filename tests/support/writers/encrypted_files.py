"""Files by pyarrow's modular encryption, in every mode, and what is planted in them."""

from __future__ import annotations

import base64
from pathlib import Path
from random import randbytes
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption

from support.oracle import oracle
from support.oracle.oracle import BINARY, BOOL, I32, I64, STRUCT, OracleFilter, Struct
from support.writers import surgery

ALGORITHMS = ("AES_GCM_V1", "AES_GCM_CTR_V1")
ROWS, GROUP = 90, 30
SIGNATURE_BYTES = 28  # nonce and tag, after a footer that is signed
PLACE = {"open": 5, "secret": 1005, "name": "n05"}
"""A value of each column that stands in row 5, in the first row group."""


class Keys(encryption.KmsClient):
    """Wraps keys by putting the master key's name before them."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(master_key_identifier.encode() + key_bytes)

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)[len(master_key_identifier) :]


def table() -> pa.Table:
    return pa.table(
        {"open": range(ROWS), "secret": range(1000, 1000 + ROWS), "name": [f"n{i:02}" for i in range(ROWS)]}
    )


def encrypted(
    path: Path, algorithm: str = ALGORITHMS[0], *, plaintext_footer: bool, columns: tuple[str, ...] = ("secret",)
) -> Path:
    """With a key for the footer and one for some columns; none of them: all columns have the footer's."""
    if columns:
        configuration = encryption.EncryptionConfiguration(
            footer_key="footer",
            column_keys={"column": list(columns)},
            plaintext_footer=plaintext_footer,
            encryption_algorithm=algorithm,
        )
        factory = encryption.CryptoFactory(lambda _: Keys())
        properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), configuration)
    else:
        properties = encryption.create_encryption_properties(
            b"0123456789abcdef", plaintext_footer=plaintext_footer, encryption_algorithm=algorithm
        )
    with pq.ParquetWriter(path, table().schema, encryption_properties=properties) as writer:
        writer.write_table(table(), row_group_size=GROUP)
    return path


def signed(path: Path) -> Path:
    """A file none of whose columns is encrypted: its footer says how it is signed, and a signature follows it."""
    pq.write_table(table(), path, row_group_size=GROUP)
    data, footer = path.read_bytes(), oracle.read_footer(path)
    footer.set(8, STRUCT, Struct({1: (STRUCT, Struct({2: (BINARY, b"8 bytes."), 3: (BOOL, False)}))}))
    footer.set(9, BINARY, b"the footer's key")
    tail = oracle.write_struct(footer) + bytes(range(SIGNATURE_BYTES))
    path.write_bytes(oracle.with_footer(data[: oracle.footer_start(data)], tail))
    return path


def _changed(path: Path, change: Any, extra: bytes = b"") -> Path:
    """Let `change` loose on a plaintext footer, whose signature stays as it is; `extra` goes before the footer."""
    data = path.read_bytes()
    start = oracle.footer_start(data)
    footer, end = oracle.read_struct(data, start)
    change(footer, start)
    tail = oracle.write_struct(footer) + data[end:-8]
    path.write_bytes(oracle.with_footer(data[:start] + extra, tail))
    return path


def with_planted_filters(path: Path, *, length: bool = True, everywhere: bool = False, is_sealed: bool = False) -> Path:
    """For each encrypted chunk (or all) a filter in the clear, flawless but for what it holds: no value of it.

    Or one as it is under encryption: header and bitset are modules of a length, a nonce, secret bytes and a tag.
    """
    parts = oracle.write_struct(oracle.filter_header(32)), OracleFilter.of(32, [b"another value"]).to_bytes()
    if is_sealed:
        parts = tuple((len(part) + 28).to_bytes(4, "little") + randbytes(len(part) + 28) for part in parts)
    stored = b"".join(parts)
    extra = bytearray()

    def change(footer: Struct, start: int) -> None:
        for chunk, metadata in surgery.each_chunk(footer):
            if everywhere or 8 in chunk or 9 in chunk:
                metadata.set(oracle.OFFSET, I64, start + len(extra))
                if length:
                    metadata.set(oracle.LENGTH, I32, len(stored))
                extra.extend(stored)

    _changed(path, change)
    data = path.read_bytes()
    start = oracle.footer_start(data)
    path.write_bytes(data[:start] + bytes(extra) + data[start:])
    return path


def with_planted_statistics(path: Path, *, everywhere: bool = False) -> Path:
    """Statistics in the clear of encrypted chunks, by which they hold nothing that they hold, and no nulls."""
    far = (1 << 40).to_bytes(8, "little")

    def change(footer: Struct, start: int) -> None:
        for chunk, metadata in surgery.each_chunk(footer):
            if everywhere or 8 in chunk or 9 in chunk:
                bounds = {5: (BINARY, far), 6: (BINARY, far), 3: (I64, 0)}
                metadata.set(12, STRUCT, Struct({number: bounds[number] for number in sorted(bounds)}))

    return _changed(path, change)


def without_metadata(path: Path) -> Path:
    """Encrypted chunks whose metadata is under encryption alone."""

    def change(footer: Struct, start: int) -> None:
        for chunk, _ in surgery.each_chunk(footer):
            if 8 in chunk or 9 in chunk:
                del chunk[3]

    return _changed(path, change)

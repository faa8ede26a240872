"""Fingerprints of a file: unchanged by embedding and dropping filters, changed by anything else."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.oracle.oracle import BINARY, I64, Struct
from support.servers.counted import CountedFileSystem
from support.writers import surgery

import parquet_bloom
from parquet_bloom import errors
from parquet_bloom.file import identity
from parquet_bloom.file.identity import chunk_bytes_fingerprint, footer_fingerprint

ROWS, GROUPS = 300, 3
FILTERS = [
    {},
    {"bloom_filter_options": {"name": {"ndv": 40, "fpp": 0.01}}},
    {"write_page_index": True},
    {"write_page_index": True, "bloom_filter_options": {"id": {"ndv": 40, "fpp": 0.01}, "key": {}}},
    {"use_dictionary": False, "compression": "zstd", "write_page_index": True},
]
by_writing = pytest.mark.parametrize("options", FILTERS, ids=lambda options: "+".join(options) or "plain")


def make_table(shift: int = 0) -> pa.Table:
    numbers = range(shift, shift + ROWS)
    return pa.table(
        {
            "id": pa.array([number * 7919 for number in numbers], pa.int64()),
            "name": [None if number % 7 == 0 else f"name {number}" for number in numbers],
            "user": [{"key": number % 50} for number in numbers],
            "key": [float(number) for number in numbers],
        }
    )


def write(path: Path, table: pa.Table | None = None, **options: Any) -> Path:
    pq.write_table(make_table() if table is None else table, path, **{"row_group_size": ROWS // GROUPS} | options)
    return path


def of_footer(path: Any, **where: Any) -> int:
    with parquet_bloom.open(path, **where) as file:
        return footer_fingerprint(file.footer)


def of_chunks(path: Any, *columns: str, **where: Any) -> int:
    with parquet_bloom.open(path, **where) as file:
        leaves = [file.leaf(name) for name in columns or file.columns]
        return chunk_bytes_fingerprint(file.source, file.footer, leaves)


def both(path: Any, **where: Any) -> tuple[int, int]:
    return of_footer(path, **where), of_chunks(path, **where)


# ------------------------------------------------------------------------------------------------------------
# What filters do not change
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.ci
@by_writing
def test_embed_and_drop_change_neither(tmp_path: Path, options: dict[str, Any]) -> None:
    for number, embedding in enumerate(
        (
            {"columns": ["id"]},
            {"columns": ["id", "name", "user.key", "key"]},
            {"columns": ["name", "key"], "replace": True},
            {"columns": {"id": 1e-6, "name": {"ndv": 100_000}}, "replace": True},
            {"columns": ["user.key"], "fpp": 0.0001, "power_of_two": False},
        )
    ):
        path = write(tmp_path / f"{number}.parquet", **options)
        before = both(path)
        for change in (
            lambda path=path, embedding=embedding: parquet_bloom.embed(path, **embedding),
            lambda path=path: parquet_bloom.embed(path, ["id", "name"], replace=True, fpp=0.3),  # smaller ones
            lambda path=path: parquet_bloom.drop(path, ["name"]),
            lambda path=path: parquet_bloom.drop(path),
        ):
            change()
            assert both(path) == before
        assert not oracle.filters(path)
        parquet_bloom.embed(path, ["key"], output=tmp_path / "b.parquet")
        assert both(tmp_path / "b.parquet") == before


@by_writing
def test_it_is_the_footer_less_two_fields(tmp_path: Path, options: dict[str, Any]) -> None:

    def by_the_oracle(path: Path) -> int:
        """The footer's fingerprint, by taking the footer apart into fields and writing it without two of them."""
        footer = oracle.read_footer(path)
        for _, metadata in surgery.each_chunk(footer):
            metadata.pop(oracle.OFFSET, None)
            metadata.pop(oracle.LENGTH, None)
        return oracle.xxh64(oracle.write_struct(footer))

    path = write(tmp_path / "a.parquet", **options)
    assert of_footer(path) == by_the_oracle(path)
    parquet_bloom.embed(path, ["id", "user.key"], replace=True)
    assert of_footer(path) == by_the_oracle(path)


def test_fields_after_the_filters_offset_count_from_the_same_field(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")

    def add(footer: Struct) -> None:
        for number, (_, metadata) in enumerate(surgery.each_chunk(footer)):
            metadata.set(16 + 7 * (number % 4), I64, 5)  # 16 to 37: near and too far for a short header

    surgery.rewrite_footer(path, add)
    before = both(path)
    parquet_bloom.embed(path, ["id", "name", "key"])
    assert both(path) == before
    parquet_bloom.drop(path)
    assert both(path) == before


def test_filters_without_lengths_count_for_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    before = both(path)
    parquet_bloom.embed(path, ["id", "name"])
    surgery.without_lengths(path)
    assert both(path) == before
    parquet_bloom.embed(path, ["id"], replace=True)
    assert both(path) == before


@pytest.mark.ci
def test_embedding_on_s3_changes_neither(s3: Any, tmp_path: Path) -> None:
    """By both ways: rewritten part by part by the store, and uploaded whole."""
    rng = np.random.default_rng(3)
    for key, payload in (("small.parquet", 10), ("large.parquet", 600)):
        table = pa.table({"id": rng.integers(0, 10**9, 10_000), "bulk": [rng.bytes(payload) for _ in range(10_000)]})
        path = write(tmp_path / key, table, row_group_size=4000, use_dictionary=False)
        s3.put(key, path.read_bytes())
        before = both(path)
        assert both(s3.url(key), storage_options=s3.storage_options) == before
        report = parquet_bloom.embed(s3.url(key), ["id"], storage_options=s3.storage_options)
        assert report.num_filters == 3
        assert s3.get(key) != path.read_bytes()
        assert both(s3.url(key), storage_options=s3.storage_options) == before
        assert parquet_bloom.drop(s3.url(key), storage_options=s3.storage_options).changed
        assert both(s3.url(key), storage_options=s3.storage_options) == before


# ------------------------------------------------------------------------------------------------------------
# What else changes them
# ------------------------------------------------------------------------------------------------------------


def test_other_values_under_the_very_same_footer_change_the_pages(tmp_path: Path) -> None:
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    tables = [pa.table({"id": pa.array(range(start, start + ROWS), pa.int64())}) for start in (0, 1)]
    paths = [write(tmp_path / f"{number}.parquet", table, **options) for number, table in enumerate(tables)]
    assert oracle.read_footer(paths[0]) == oracle.read_footer(paths[1])
    assert of_footer(paths[0]) == of_footer(paths[1])
    assert of_chunks(paths[0]) != of_chunks(paths[1])


def test_any_other_field_changes_the_footers(tmp_path: Path) -> None:
    def move_offset(footer: Struct) -> None:
        for _, metadata in surgery.each_chunk(footer, "name"):
            metadata.set(9, I64, metadata.value(9) + 1)

    def change_statistics(footer: Struct) -> None:
        for _, metadata in surgery.each_chunk(footer, "key"):
            metadata.pop(surgery.STATISTICS, None)

    for change in (
        lambda footer: footer.set(3, I64, ROWS + 1),
        lambda footer: footer.set(6, BINARY, b"someone else"),
        move_offset,
        change_statistics,
    ):
        path = write(tmp_path / "a.parquet")
        parquet_bloom.embed(path, ["id", "name"])
        before = of_footer(path)
        surgery.rewrite_footer(path, lambda footer: None)
        assert of_footer(path) == before
        surgery.rewrite_footer(path, change)
        assert of_footer(path) != before


@pytest.mark.ci
def test_every_byte_of_the_chosen_columns_counts_and_none_else(tmp_path: Path) -> None:
    table = make_table().slice(0, 20)
    path = write(tmp_path / "a.parquet", table, row_group_size=10, write_page_index=True)
    data = path.read_bytes()
    metadata = pq.read_metadata(path)
    inside: set[int] = set()
    for group in range(metadata.num_row_groups):
        for number in (0, 3):
            chunk = metadata.row_group(group).column(number)
            first = chunk.dictionary_page_offset or chunk.data_page_offset
            inside |= set(range(first, first + chunk.total_compressed_size))
    before = of_chunks(path, "id", "key")
    for position in range(4, oracle.footer_start(data)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        assert (of_chunks(path, "id", "key") != before) == (position in inside)


# ------------------------------------------------------------------------------------------------------------
# How the pages are read
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.ci
def test_pieces_and_batches_are_those_of_the_twin(tmp_path: Path) -> None:
    """Chunks of more than a piece of 4 MiB, of which three are hashed together; little is read at once."""

    def chunks_by_the_oracle(path: Path, columns: list[str], piece: int) -> int:
        """The chunks' fingerprint: every piece's sum, in batches whose sums begin with the one before."""
        data, metadata = path.read_bytes(), pq.read_metadata(path)
        heads, pieces = b"", []
        for group in range(metadata.num_row_groups):
            for number in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(number)
                if chunk.path_in_schema not in columns:
                    continue
                first = chunk.dictionary_page_offset or chunk.data_page_offset
                stored = data[first : first + chunk.total_compressed_size]
                heads += struct.pack("<QQQ", group, number, len(stored))
                pieces += [stored[at : at + piece] for at in range(0, len(stored), piece)]
        total, batch = oracle.xxh64(heads), []
        for part in pieces:
            batch.append(part)
            if sum(map(len, batch)) > 3 * piece:
                total = oracle.xxh64(struct.pack(f"<{1 + len(batch)}Q", total, *map(oracle.xxh64, batch)))
                batch = []
        if batch:
            total = oracle.xxh64(struct.pack(f"<{1 + len(batch)}Q", total, *map(oracle.xxh64, batch)))
        return total

    rng = np.random.default_rng(5)
    table = pa.table({"id": rng.integers(0, 1 << 60, 3_000_000), "key": rng.integers(0, 1 << 60, 3_000_000)})
    options = {"row_group_size": 2_500_000, "use_dictionary": False, "compression": "none"}
    path = write(tmp_path / "a.parquet", table, **options)
    for columns in (["id"], ["id", "key"]):
        assert of_chunks(path, *columns) == chunks_by_the_oracle(path, columns, identity.PIECE_BYTES), columns
    files = CountedFileSystem({"a": path.read_bytes()})
    of_chunks("a", "id", filesystem=files)
    assert max(end - start for start, end in files.ranges_read) <= identity.READ_BYTES
    small = write(tmp_path / "b.parquet", make_table().slice(0, 60), row_group_size=25)
    assert of_chunks(small, "key", "name") == chunks_by_the_oracle(small, ["name", "key"], identity.PIECE_BYTES)
    assert of_chunks(small, "name", "key", "name") == of_chunks(small, "key", "name") != of_chunks(small, "name")


def test_no_rows_no_row_groups_no_columns(tmp_path: Path) -> None:
    empty = write(tmp_path / "a.parquet", make_table().slice(0, 0))
    result = both(empty)
    parquet_bloom.embed(empty, ["id"], output=tmp_path / "b.parquet")
    assert both(tmp_path / "b.parquet") == result
    with pq.ParquetWriter(tmp_path / "c.parquet", make_table().schema):
        pass
    with parquet_bloom.open(tmp_path / "c.parquet") as file:
        assert file.num_row_groups == 0
        assert chunk_bytes_fingerprint(file.source, file.footer, file.leaves) == oracle.xxh64(b"")
        assert chunk_bytes_fingerprint(file.source, file.footer, []) == oracle.xxh64(b"")


# ------------------------------------------------------------------------------------------------------------
# What is refused
# ------------------------------------------------------------------------------------------------------------


def test_impossible_offsets_are_named(tmp_path: Path) -> None:
    for field, value in ((9, -1), (9, 1 << 40), (9, (1 << 63) - 1), (7, -5), (7, 1 << 40), (7, (1 << 63) - 1), (11, 2)):
        path = write(tmp_path / "a.parquet")

        def change(footer: Struct, field: int = field, value: int = value) -> None:
            list(surgery.each_chunk(footer, "name"))[1][1].set(field, I64, value)

        surgery.rewrite_footer(path, change)
        assert isinstance(of_footer(path), int)
        with pytest.raises(errors.MalformedFooterError, match=r"a\.parquet: row group 1, column 'name': metadata: its"):
            of_chunks(path)
        of_chunks(path, "id")


def test_chunks_that_share_their_bytes_are_not_read_again_and_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", compression="none")
    start = oracle.footer_start(path.read_bytes())

    def change(footer: Struct) -> None:
        for _, metadata in surgery.each_chunk(footer):
            metadata.pop(11, None)
            metadata.set(9, I64, 4)
            metadata.set(7, I64, start - 4)

    surgery.rewrite_footer(path, change)
    with pytest.raises(errors.MalformedFooterError, match="more bytes than the file"):
        of_chunks(path)


def test_encrypted_columns_and_those_elsewhere_are_refused(tmp_path: Path) -> None:
    path = surgery.encrypted(tmp_path / "a.parquet", make_table(), plaintext_footer=True, columns=("name",))
    assert isinstance(of_footer(path), int)
    of_chunks(path, "id")
    with pytest.raises(errors.EncryptedFileError, match="column 'name'"):
        of_chunks(path, "id", "name")
    path = surgery.in_another_file(write(tmp_path / "b.parquet"), "key")
    with pytest.raises(errors.UnreadableColumnError, match="in another file"):
        of_chunks(path)


def test_a_file_cut_while_it_was_open(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", compression="none", use_dictionary=False)
    with parquet_bloom.open(path) as file:
        with path.open("r+b") as cut:
            cut.truncate(100)
        with pytest.raises(errors.TruncatedFileError):
            chunk_bytes_fingerprint(file.source, file.footer, file.leaves)

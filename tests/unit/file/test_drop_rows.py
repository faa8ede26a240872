"""Files written anew without some rows: what is copied, what is encoded as it was, what is refused."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support import corpus
from support.dropped_rows import CODEC, ENCODINGS, STATISTICS, assert_without, chunks, decoded_pages, read_with, without
from support.oracle import oracle
from support.oracle.oracle import BINARY, I32, I64, STRUCT, Struct
from support.writers import encrypted_files, peers, random_files, surgery
from support.writers.typed_columns import ARROW_TYPES, FORMATS, draw_values, write_options

import parquet_bloom
from parquet_bloom.errors import (
    BrokenFilterError,
    EncryptedFileError,
    MalformedFooterError,
    ParquetBloomError,
    UnreadableColumnError,
)
from parquet_bloom.file.bloom_file import BloomFile
from parquet_bloom.storage import open_source

ROWS, GROUP = 400, 130
GONE = [*range(3), 129, *range(260, 390), 399]  # of the first row group and the last, and all of the third


def make_types() -> pa.Table:
    rng = np.random.default_rng(3)
    columns = {}
    for number, kind in enumerate(ARROW_TYPES):
        pool = draw_values(kind, (1, 20, 300)[number % 3]) if not str(kind).endswith("_view") else None
        if pool is None:
            columns[str(kind)] = pa.array([f"{i % 90}" for i in range(ROWS)]).cast(kind)
            continue
        picked = pa.array(rng.integers(0, len(pool), ROWS), mask=rng.random(ROWS) < (0, 0.3)[number % 2])
        columns[str(kind)] = pool.take(picked)
    columns["dictionary"] = pa.array([f"w{i % 9}" for i in range(ROWS)]).dictionary_encode()
    columns["uuid"] = pa.ExtensionArray.from_storage(pa.uuid(), columns["fixed_size_binary[16]"])
    columns["flag"] = pa.array([i % 3 == 0 if i % 5 else None for i in range(ROWS)])
    columns["nothing"] = pa.nulls(ROWS)
    return pa.table(columns)


def make_nested(rows: int = ROWS) -> pa.Table:
    def maybe(value: Any, i: int, step: int) -> Any:
        return None if i % step == 0 else value

    deep = [
        maybe([maybe([maybe([maybe(i + j, j, 3) for j in range(i % 4)], i, 5)] * (i % 3), i, 7)] * (i % 3), i, 11)
        for i in range(rows)
    ]
    structs = [
        maybe({"a": {"b": maybe({"c": maybe(str(i), i, 3)}, i, 5)}, "l": [{"x": i}] * (i % 4)}, i, 7)
        for i in range(rows)
    ]
    maps = [maybe([(f"k{i}", maybe([i], i, 2))], i, 9) for i in range(rows)]
    required = pa.field("required", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False)
    schema = pa.schema(
        [
            ("deep", pa.list_(pa.list_(pa.list_(pa.int64())))),
            (
                "structs",
                pa.struct(
                    [
                        ("a", pa.struct([("b", pa.struct([("c", pa.string())]))])),
                        ("l", pa.list_(pa.struct([("x", pa.int16())]))),
                    ]
                ),
            ),
            ("maps", pa.map_(pa.string(), pa.list_(pa.int32()))),
            ("fixed", pa.list_(pa.float32(), 2)),
            required,
        ]
    )
    return pa.table(
        [deep, structs, maps, [[i, math.nan] for i in range(rows)], [[i] * (i % 3) for i in range(rows)]], schema
    )


@pytest.mark.ci
@pytest.mark.parametrize("name", FORMATS)
def test_every_type(tmp_path, name):
    table, path = make_types(), tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=GROUP, **write_options(name, table.schema))
    report = assert_without(path, GONE, tmp_path / "b.parquet")
    assert (report.rewritten, report.copied, report.removed, report.lost) == (2, 1, 1, [])
    for old, new in zip(chunks(path)[0], chunks(tmp_path / "b.parquet")[0], strict=True):
        assert {*new[0].value(ENCODINGS).items} <= {*old[0].value(ENCODINGS).items} | {oracle_rle()}
        assert (STATISTICS in new[0]) == (STATISTICS in old[0])
        assert new[2].keys() == old[2].keys()


def oracle_rle() -> int:
    return 3  # of levels and indices


@pytest.mark.ci
@pytest.mark.parametrize("options", [{}, {"data_page_version": "2.0", "data_page_size": 300, "write_page_index": True}])
def test_nested_columns(tmp_path, options):
    path = tmp_path / "a.parquet"
    pq.write_table(make_nested(), path, row_group_size=GROUP, **options)
    report = assert_without(path, GONE, tmp_path / "b.parquet")
    assert not report.lost


def test_lists_of_two_levels(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table(
            {
                "a": pa.array(
                    [[i] * (i % 3) for i in range(90)], pa.list_(pa.field("element", pa.int32(), nullable=False))
                )
            }
        ),
        path,
    )

    def bare(footer: Struct) -> None:
        """Make `optional group a (LIST) { repeated group list { required element } }` one of two levels."""
        elements = footer.value(2).items
        repeated = Struct({1: (I32, 1), 3: (I32, 2), 4: (BINARY, b"array")})
        footer.value(2).items[:] = [*elements[:2], repeated]
        for _, metadata in surgery.each_chunk(footer):
            metadata.value(3).items[:] = [b"a", b"array"]
        footer.value(5).items[:] = [pair for pair in footer.value(5).items if pair.value(1) != b"ARROW:schema"]

    surgery.rewrite_footer(path, bare)
    assert pq.read_schema(path).field("a").type.value_type == pa.int32()
    assert_without(path, [0, 5, 89], tmp_path / "b.parquet")


@pytest.mark.ci
@pytest.mark.parametrize("writer", ["by_pyarrow", "by_duckdb", "by_datafusion"])
def test_files_of_other_writers(tmp_path, writer):
    for peer in getattr(peers, writer)(tmp_path):
        num_rows = pq.read_metadata(peer.path).num_rows
        report = assert_without(peer.path, [1, num_rows // 2, num_rows - 1], tmp_path / "new.parquet")
        assert {(one.column, one.what) for one in report.lost} <= {("iv", "filter"), ("bool", "filter")}


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_other_engines_read_it(tmp_path, engine):
    table = pa.table(
        {
            "id": range(ROWS),
            "name": [None if i % 7 == 0 else f"n{i}" for i in range(ROWS)],
            "tags": [[f"t{i}"] * (i % 3) for i in range(ROWS)],
        }
    )
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(table, path, row_group_size=GROUP, write_page_index=True)
    parquet_bloom.embed(path, ["id", "name"])
    without(path, GONE, target)
    assert read_with(engine, target).to_pylist() == [row for i, row in enumerate(table.to_pylist()) if i not in GONE]


@pytest.mark.skipif(not corpus.FOLDER.exists(), reason="the corpus is not there")
def test_variants(tmp_path):
    for path in sorted((corpus.FOLDER / "variant").glob("*.parquet"))[::12]:
        target = tmp_path / path.name
        report = without(path, [0], target)
        assert pq.read_metadata(target).num_rows == report.rows_left


# ------------------------------------------------------------------------------------------------------------
# Nothing of the rows is left
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize("keep_footer", [True, False])
def test_nothing_of_the_rows_is_left(tmp_path, use_dictionary, keep_footer):
    """Also not in statistics, page indexes, and what embedding has left behind: the footer before, and dead filters."""
    keys = [f"key-{i:05}" for i in range(ROWS)]
    keys[7], keys[300] = "aaa-erased", "zzz-erased"  # bounds of their row groups
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    options: dict[str, Any] = {"use_dictionary": use_dictionary, "compression": "none", "write_page_index": True}
    pq.write_table(pa.table({"key": keys, "id": range(ROWS)}), path, row_group_size=GROUP, **options)
    parquet_bloom.embed(path, ["key"], keep_footer=keep_footer)
    parquet_bloom.embed(path, {"key": 0.001}, replace=True, keep_footer=keep_footer)
    assert path.read_bytes().count(b"-erased") > 4
    report = assert_without(path, [7, 300], target)
    assert b"-erased" not in target.read_bytes()
    assert (report.rewritten, report.copied) == (2, 2)
    assert parquet_bloom.read_table(target, pc.field("key") == "key-00008").num_rows == 1
    with parquet_bloom.open(target) as file:
        assert [file.filter(group, "key").num_bytes for group in range(4)] == sizes_of(path)
        assert file.filter(0, "key").check(["aaa-erased", "key-00008"]).tolist() == [False, True]


def sizes_of(path: Path) -> list[int]:
    with parquet_bloom.open(path) as file:
        return [file.filter(group, "key").num_bytes for group in file.row_groups]


def make_shared(rows: int = ROWS) -> pa.Table:
    """Columns of which pyarrow writes the dictionary whole into each row group; one value in three is null."""
    texts = pa.array([None if i % 3 == 1 else f"key-{i:05}" for i in range(rows)]).dictionary_encode()
    as_bytes = texts.cast(pa.dictionary(pa.int32(), pa.binary()))
    offsets = pa.array([2 * (i // 2) for i in range(rows)] + [rows], pa.int32())  # lists of none and of two
    lists = pa.ListArray.from_arrays(offsets, texts)
    structs = pa.StructArray.from_arrays(
        [lists, as_bytes], ["l", "b"], mask=pa.array([i % 7 == 3 for i in range(rows)])
    )
    same = pa.array(["always"] * rows).dictionary_encode()
    return pa.table(
        {"id": range(rows), "key": texts, "structs": structs, "plain": lists.cast(pa.list_(pa.string()))}
        | {"same": same}
    )


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "none", "write_page_index": True},
        {"compression": "snappy", "data_page_version": "2.0", "data_page_size": 300},
        {"compression": "zstd", "store_schema": False},
    ],
)
def test_dictionaries_with_values_that_no_row_there_has(tmp_path, options):
    """They go from row groups that lose no row, whose other columns are copied, and from those that lose some."""
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(make_shared(), path, row_group_size=50, **options)
    parquet_bloom.embed(path, ["key", "id"])
    gone = [*range(6, 10), *range(130, 134), *range(350, 400)]
    before = decoded_pages(path)
    report = assert_without(path, gone, target, trims=True)
    assert (report.rewritten, report.copied, report.removed) == (2, 5, 1)
    after = decoded_pages(target)
    for key in (b"key-00006", b"key-00008", b"key-00131", b"key-00132", b"key-00399"):
        assert key in before, key
        assert key not in after, key
    assert after.count(b"always") == 7  # of what rows have nothing changes
    assert (report.trimmed, report.lost) == (15, [])  # of five row groups
    assert report.shared == ("key", "structs.b", "structs.l.list.element")
    assert without(target, [0], path).trimmed == 0  # there are none any more
    with parquet_bloom.open(target) as file:
        assert file.filter(1, "key").check(["key-00006", "key-00054"]).tolist() == [False, True]


def test_dictionaries_in_front_of_plain_pages(tmp_path):
    """So pyarrow writes a row group in which another dictionary begins."""
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    keys, numbers = pa.array([f"key-{i:05}" for i in range(ROWS)]), np.arange(ROWS)
    first = pa.DictionaryArray.from_arrays(numbers, keys)
    second = pa.DictionaryArray.from_arrays(numbers[::-1], keys[::-1])
    pq.write_table(pa.table({"key": pa.chunked_array([first[:75], second[75:]])}), path, row_group_size=50)
    with parquet_bloom.open(path) as file:
        assert not file.record(1, file.leaves[0])["dictionary_only"]
    assert decoded_pages(path).count(b"key-00006") == 8
    assert assert_without(path, [6], target, trims=True).trimmed == 7
    assert b"key-00006" not in decoded_pages(target)


@pytest.mark.parametrize("rows", [[59], range(60)])
def test_dictionaries_that_are_used_but_for_one_value(tmp_path, rows):
    """They are longer than their pages of numbers, which are read first; also of a row group that goes whole."""
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    numbers = [*range(60), *(i % 59 for i in range(120))]
    keys = pa.DictionaryArray.from_arrays(numbers, [f"key-{i:060}" for i in range(60)])
    pq.write_table(pa.table({"key": keys}), path, row_group_size=60, compression="none")
    assert assert_without(path, rows, target, trims=True).trimmed == 2
    assert b"%059d" % 58 in decoded_pages(target)
    assert b"%059d" % 59 not in decoded_pages(target)


def test_dictionaries_without_entries_are_copied(tmp_path):
    """So DataFusion writes a row group of nulls alone: its dictionary takes no byte, and its filter stays."""
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    table = pa.table({"key": ["a", "b", "a", None, None, None]})
    random_files.by_datafusion(random.Random(0), table, path, 3, dictionary_enabled=True, statistics_enabled="none")
    parquet_bloom.embed(path, ["key"])
    report = assert_without(path, [1], target)
    assert (report.trimmed, report.lost) == (0, [])


@pytest.mark.parametrize("rows", [GONE, range(GROUP)])
def test_dictionaries_of_other_values_are_copied(tmp_path, rows):
    """Of what rows have, also where it is what is erased elsewhere, and of what never goes."""
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    unused = pa.DictionaryArray.from_arrays([i % 8 for i in range(ROWS)], [f"w{i}" for i in range(9)])
    pq.write_table(pa.table({"few": [i % 8 for i in range(ROWS)], "unused": unused}), path, row_group_size=GROUP)
    report = assert_without(path, rows, target)
    assert (report.trimmed, b"w8" in decoded_pages(target)) == (0, True)


def test_bytes_of_the_new_file_are_all_referred_to(tmp_path):
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"a": range(ROWS)}), path, row_group_size=GROUP)
    surgery.with_bytes_before_the_footer(path, b"left behind" * 9)
    parquet_bloom.embed(path, ["a"])
    assert_without(path, [200], target)
    assert b"left behind" not in target.read_bytes()
    assert path.stat().st_size - target.stat().st_size > 80


# ------------------------------------------------------------------------------------------------------------
# Evidence
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [True, False])
def test_bounds_are_of_the_type(tmp_path, index):
    """Of types that are ordered otherwise than their stored values."""
    table = pa.table(
        {
            "u32": pa.array([2**31 + i if i % 2 else i for i in range(ROWS)], pa.uint32()),
            "u64": pa.array([2**63 + i if i % 2 else i for i in range(ROWS)], pa.uint64()),
            "f16": pa.array(np.arange(-200, 200).astype(np.float16)),
            "decimal": pa.array(range(-200, 200), pa.int64()).cast(pa.decimal128(25, 0)),
            "wide": pa.array(range(-200, 200), pa.int64()).cast(pa.decimal256(70, 0)),
            "text": [f"{i:04}é" for i in range(ROWS)],
        }
    )
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(table, path, row_group_size=ROWS, write_page_index=index, data_page_size=100, write_batch_size=32)
    assert not assert_without(path, [0, 1, 399], target).lost
    kept = pq.read_table(target)
    for name in table.column_names:
        low, high = kept[name][0], kept[name][-1]
        bounds = pc.min_max(kept[name].cast(pa.float64()) if name == "f16" else kept[name]).as_py()
        for value in (low.as_py(), high.as_py(), kept[name][170].as_py()):
            if name != "f16":
                assert parquet_bloom.read_table(target, pc.field(name) == pa.scalar(value, low.type)).num_rows == 1, (
                    name
                )
        statistics = pq.read_metadata(target).row_group(0).column(table.column_names.index(name)).statistics
        assert statistics.has_min_max, name
        if name in ("u32", "u64", "text"):
            assert {"min": statistics.min, "max": statistics.max} == bounds


def written_by(path: Path, created_by: bytes) -> Path:
    return surgery.rewrite_footer(path, lambda footer: footer.set(6, BINARY, created_by))


def test_nan_where_the_writer_says_that_bounds_show_it(tmp_path):
    """parquet-mr's bounds are NaN where a value is; ours goes by that, so that bounds without would hide rows."""
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0, math.nan, 4.0], "b": [1.0, 2.0, 3.0, 4.0]}), path)
    written_by(path, b"parquet-mr version 1.13.1 (build x)")
    report = without(path, [0], target)
    assert [(one.column, one.what) for one in report.lost] == [("a", "statistics")]
    assert [row["a"] for row in parquet_bloom.read_table(target, pc.field("a") != 2.0).to_pylist()][1] == 4.0
    assert parquet_bloom.read_table(target, pc.is_nan(pc.field("a"))).num_rows == 1
    statistics = [pq.read_metadata(target).row_group(0).column(i).statistics for i in range(2)]
    assert [(one.has_min_max, one.null_count) for one in statistics] == [(False, 0), (True, 0)]


def test_statistics_only_where_there_were_some(tmp_path):
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"a": range(9), "b": range(9), "c": range(9)}), path, write_statistics=["a", "b"])

    def counts_only(footer: Struct) -> None:
        for _, metadata in surgery.each_chunk(footer, "b"):
            metadata.set(STATISTICS, STRUCT, Struct({3: (I64, 0)}))

    surgery.rewrite_footer(path, counts_only)
    assert_without(path, [4], target)
    new = [metadata.value(STATISTICS) if STATISTICS in metadata else None for metadata, *_ in chunks(target)[0]]
    assert [set(one or ()) & {1, 2, 3, 5, 6} for one in new] == [{1, 2, 3, 5, 6}, {3}, set()]


def test_int96(tmp_path):
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    values = pa.array([None if i % 5 == 0 else i * 10**12 for i in range(ROWS)], pa.timestamp("ns"))
    pq.write_table(pa.table({"t": values}), path, row_group_size=GROUP, use_deprecated_int96_timestamps=True)
    parquet_bloom.embed(path, ["t"])
    assert_without(path, GONE, target)
    assert pq.ParquetFile(target).schema.column(0).physical_type == "INT96"
    assert pq.read_metadata(target).row_group(0).column(0).statistics is None


def test_filters_that_are_not_at_the_end(tmp_path):
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"a": range(ROWS)}), path, row_group_size=GROUP)
    parquet_bloom.embed(path, ["a"])
    surgery.without_lengths(surgery.with_filter_moved_between_row_groups(path, "a"))
    for rows in ([0], [200], GONE):
        assert_without(path, rows, target)
        assert parquet_bloom.read_table(target, pc.field("a") == 201).num_rows == 1


def test_a_dictionary_page_at_0(tmp_path):
    """So some writers say that there is none."""
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"a": range(ROWS)}), path, row_group_size=GROUP, use_dictionary=False)

    def change(footer: Struct) -> None:
        for _, metadata in surgery.each_chunk(footer):
            metadata.set(11, I64, 0)

    surgery.rewrite_footer(path, change)
    without(path, GONE, target)
    assert pq.read_table(target)["a"].to_pylist() == [i for i in range(ROWS) if i not in GONE]
    assert parquet_bloom.read_table(target, pc.field("a") == 201).num_rows == 1


@pytest.mark.ci
@pytest.mark.parametrize("number", [1, 9, 130, 399])
def test_random_rows(tmp_path, number):
    path = tmp_path / "a.parquet"
    pq.write_table(make_types().select(range(5, 25)), path, row_group_size=50, write_page_index=True, data_page_size=90)
    rng = random.Random(number)
    assert_without(path, rng.sample(range(ROWS), number), tmp_path / "b.parquet")


def test_no_rows_and_all_rows(tmp_path):
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(make_types(), path, row_group_size=GROUP)
    assert without(path, [], target).copied == 4
    assert target.read_bytes() == path.read_bytes()
    assert_without(path, range(ROWS), target)
    assert pq.read_metadata(target).num_row_groups == 0


# ------------------------------------------------------------------------------------------------------------
# What is refused
# ------------------------------------------------------------------------------------------------------------


def assert_refused(path: Path, match: str, kind: type[Exception], rows: Any = (0,)) -> None:
    before = path.read_bytes()
    with pytest.raises(kind, match=match) as caught:
        without(path, rows, path)
    assert isinstance(caught.value, ParquetBloomError)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert [*path.parent.iterdir()] == [path]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"a": range(ROWS), "b": [f"b{i}" for i in range(ROWS)]}), path, row_group_size=GROUP)
    return path


@pytest.mark.parametrize("rows", [[-1], [ROWS], [3, 3]])
def test_rows_that_the_file_has_not(plain, rows):
    assert_refused(plain, "ascend from 0 to 399", ParquetBloomError, rows)


def test_encrypted_files(tmp_path):
    path = encrypted_files.encrypted(tmp_path / "a.parquet", plaintext_footer=True)
    assert_refused(path, "signed, or columns are encrypted", EncryptedFileError)


def test_chunks_in_other_files(plain):
    assert_refused(surgery.in_another_file(plain, "b"), "in another file", UnreadableColumnError)


def test_codecs_that_are_not_written(plain):
    for codec, name in ((3, "LZO"), (5, "LZ4 of Hadoop")):

        def change(footer: Struct, codec: int = codec) -> None:
            for _, metadata in surgery.each_chunk(footer, "b"):
                metadata.set(CODEC, I32, codec)

        surgery.rewrite_footer(plain, change)
        assert_refused(plain, name, UnreadableColumnError)


@pytest.mark.parametrize("level", ["file", "row group", "chunk", "metadata"])
def test_fields_of_later_formats(plain, level):
    """They may have places of bytes, or values, as a second footer in another format would."""

    def change(footer: Struct) -> None:
        group = footer.value(4).items[1]
        chunk = group.value(1).items[1]
        where = {"file": footer, "row group": group, "chunk": chunk, "metadata": chunk.value(3)}[level]
        where.set(32767, BINARY, b"later")

    assert_refused(surgery.rewrite_footer(plain, change), "field 32767, of a later format", MalformedFooterError)


def test_chunks_that_overlap(plain):
    def change(footer: Struct) -> None:
        metadata = oracle.column_metadata(footer, 1, "b")
        metadata.set(7, I64, metadata.value(7) + 1)

    assert_refused(surgery.rewrite_footer(plain, change), "overlap", MalformedFooterError)


def test_a_writer_of_wrong_sizes(plain):
    assert_refused(written_by(plain, b"parquet-mr version 1.2.0"), "wrong sizes", UnreadableColumnError)


def test_broken_filters(plain):
    parquet_bloom.embed(plain, ["a"])
    data = bytearray(plain.read_bytes())
    offset = oracle.filters(plain)[2, "a"].offset
    data[offset : offset + 4] = struct.pack("<I", 0xFFFFFFFF)
    plain.write_bytes(data)
    assert_refused(plain, "row group 2, column 'a'.*drop the filter", BrokenFilterError)


def test_damaged_pages(plain):
    data = bytearray(plain.read_bytes())
    data[4:60] = bytes(56)
    plain.write_bytes(data)
    assert_refused(plain, "row group 0, column 'a'", UnreadableColumnError)
    with open_source(plain) as source:
        assert BloomFile(source).num_row_groups == 4
    assert_refused(
        plain, "row group 0, column 'a'", UnreadableColumnError, [300]
    )  # what its dictionary has is not known


def test_damaged_pages_of_others_are_copied(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(ROWS)}), path, row_group_size=GROUP, use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(56)
    path.write_bytes(data)
    assert without(path, [300], path).rows_left == ROWS - 1

"""Filters by pyarrow, DuckDB, DataFusion and Spark, read by us; and files of theirs, embedded into by us."""

from __future__ import annotations

import functools
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.oracle.oracle import OracleFilter
from support.writers import peers

import parquet_bloom
from parquet_bloom import SplitBlockBloomFilter

BY_PEERS = [pytest.param(name, marks=pytest.mark.spark if "spark" in name else ()) for name in peers.NAMES]

# Filters that are not what `SplitBlockBloomFilter` makes of the same values; all others are, bit for bit.
EXCEPTIONS = {
    ("spark-all", "bool"): "empty: parquet-java inserts no BOOLEAN values",
    ("datafusion-all", "bool"): "refused: sound, of one byte a value, but we make and ask none of BOOLEAN columns",
    ("duckdb-other", "iv"): "more: holds intervals as they are and with 30 days carried over as a month",
}


def exception(name: str, leaf: str) -> str:
    """The kind of an exception, empty for the rule."""
    return EXCEPTIONS.get((name, leaf), "").split(":")[0]


# Columns that we write no filters for, in any writer's files.
NOT_EMBEDDED = {"bool"}


def unbound(stored: SplitBlockBloomFilter) -> SplitBlockBloomFilter:
    """An empty filter of the size and column type of another; odd bytes at its end are left out."""
    num_bytes = 32 * stored.num_blocks
    empty = SplitBlockBloomFilter.from_bitset(bytes(num_bytes), stored.column_type)
    return SplitBlockBloomFilter(num_bytes).merge(empty)


# ------------------------------------------------------------------------------------------------------------
# Theirs, read by us
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_PEERS)
def test_filters_are_found_at_their_offsets(name, peer_file):
    file = peer_file(name)
    stored = oracle.filters(file.path)
    with parquet_bloom.open(file.path) as opened:
        assert opened.num_row_groups == peers.GROUPS
        assert opened.columns == list(file.leaves)
        chunks = {(chunk.row_group, chunk.column): chunk for chunk in opened.chunks()}
        assert chunks.keys() == stored.keys()
        for key, chunk in chunks.items():
            theirs = stored[key]
            assert (chunk.offset, chunk.length) == (theirs.offset, theirs.length), key
            assert chunk.num_bytes == chunk.header.num_bytes == len(theirs.bitset), key
            if exception(name, chunk.column) == "empty":
                assert chunk.problem is not None
                continue
            assert chunk.problem is None, (key, chunk.problem)
            assert chunk.filter.to_bytes() == theirs.bitset, key
            exact = OracleFilter(len(theirs.bitset), theirs.bitset)
            assert chunk.fill == pytest.approx(exact.fill, abs=1e-12), key
            assert chunk.fpp == pytest.approx(exact.fpp, rel=1e-9), key
            assert chunk.ndv_estimate == pytest.approx(len(file.hashed(*key)), rel=0.3, abs=3), key


@pytest.mark.parametrize("name", BY_PEERS)
def test_no_value_is_denied(name, peer_file):
    """Values in the types that they were given in, coerced to what the file holds."""
    file = peer_file(name)
    with parquet_bloom.open(file.path) as opened:
        for row_group, leaf in oracle.filters(file.path):
            if exception(name, leaf) in ("empty", "refused"):
                continue
            matches = opened.filter(row_group, leaf).check(file.array(row_group, leaf))
            values = file.values(row_group, leaf)
            assert len(matches) == len(values)
            denied = [value for value, maybe in zip(values, matches, strict=True) if not maybe]
            assert not denied, (row_group, leaf)


@pytest.mark.parametrize("name", BY_PEERS)
def test_absent_values_are_denied(name, peer_file):
    """The values of other row groups: a probe that always said "maybe" would pass every other test."""
    file = peer_file(name)
    num_queries = 0
    with parquet_bloom.open(file.path) as opened:
        for row_group, leaf in oracle.filters(file.path):
            stored = opened.chunk(row_group, leaf)
            plain = file.plain(row_group, leaf)
            if exception(name, leaf) in ("empty", "refused") or stored.fpp > 0.2:
                continue
            other = (row_group + 1) % peers.GROUPS
            encode = file.leaves[leaf].plain
            matches = stored.filter.check(file.array(other, leaf))
            answers = {
                encode(value): bool(maybe)
                for value, maybe in zip(file.values(other, leaf), matches, strict=True)
                if value is not None and encode(value) not in plain
            }
            # A NaN is never denied, and some are found by chance.
            assert sum(answers.values()) <= 4 + 3 * stored.fpp * len(answers), (row_group, leaf)
            num_queries += len(answers)
    assert num_queries > 100


@pytest.mark.parametrize("name", BY_PEERS)
def test_bits_are_those_of_our_filter(name, peer_file):
    file = peer_file(name)
    compared = 0
    with parquet_bloom.open(file.path) as opened:
        for (row_group, leaf), theirs in oracle.filters(file.path).items():
            if exception(name, leaf) in ("empty", "refused"):
                continue
            ours = unbound(opened.filter(row_group, leaf))
            ours.insert(file.array(row_group, leaf))
            if exception(name, leaf) == "more":
                pairs = zip(ours.to_bytes(), theirs.bitset, strict=True)
                assert all(our_byte & their_byte == our_byte for our_byte, their_byte in pairs), (row_group, leaf)
                continue
            assert ours.to_bytes() == theirs.bitset[: ours.num_bytes], (row_group, leaf)
            assert not any(theirs.bitset[ours.num_bytes :])
            compared += 1
    assert compared >= peers.GROUPS


@pytest.mark.parametrize("name", BY_PEERS)
def test_verify_finds_nothing_but_the_exceptions(name, peer_file):
    file = peer_file(name)
    report = parquet_bloom.verify(file.path, data=True)
    assert {(chunk.row_group, chunk.column) for chunk in report.chunks} == oracle.filters(file.path).keys()
    wrong = {chunk.column for chunk in report.problems}
    assert wrong == {leaf for leaf in file.leaves if exception(name, leaf) == "empty"}
    assert report.ok == (not wrong)


def test_verify_sees_a_single_missing_bit(peer_file, tmp_path):
    """One bit of one value, in each column: what a filter that is not the column's own looks like at the least."""
    file = peer_file("pyarrow-all")
    data = bytearray(file.path.read_bytes())
    tampered = set()
    for (row_group, leaf), stored in oracle.filters(file.path).items():
        position = next((i for i, byte in enumerate(stored.bitset) if byte), None)
        if row_group != 1 or position is None:
            continue
        data[stored.offset + stored.header_size + position] &= stored.bitset[position] - 1
        tampered.add((row_group, leaf))
    path = tmp_path / "tampered.parquet"
    path.write_bytes(data)
    assert parquet_bloom.verify(path).ok
    report = parquet_bloom.verify(path, data=True)
    assert {(chunk.row_group, chunk.column) for chunk in report.problems} == tampered


@pytest.mark.parametrize("name", [name for name in BY_PEERS if "all" in str(name)])
def test_a_column_of_booleans_loses_no_row(name, peer_file):
    file = peer_file(name)
    everywhere = list(range(peers.GROUPS))
    for value in ("true", "false"):
        assert parquet_bloom.prune(file.path, f"bool = {value}").selected == {str(file.path): everywhere}


def given_rows(file: peers.PeerFile, column: str) -> list[Any]:
    """The values of a column or a struct's field, row by row."""
    top, *rest = column.split(".")
    return [functools.reduce(lambda value, part: value and value[part], rest, row) for row in file.rows[top]]


def literals(file: peers.PeerFile, column: str, rows: list[Any]) -> dict[Any, Any]:
    """Some values and how to write them: those that all row groups have, and some of the row groups' own."""
    size = file.group_sizes[0]
    groups = [dict.fromkeys(rows[start : start + size]) for start in range(0, len(rows), size)]
    groups = [[value for value in group if value is not None and value == value] for group in groups]
    everywhere = set(groups[0]).intersection(*groups[1:])
    chosen = [value for value in groups[0] if value in everywhere]
    chosen += [value for group in groups for value in group if value not in everywhere][:: peers.DISTINCT // 2]
    arrow = file.array(0, column).type
    wrap = pa.types.is_temporal(arrow) and isinstance(chosen[0], int)  # nanoseconds
    return {value: pa.scalar(value, pa.int64()).cast(arrow) if wrap else value for value in chosen}


# Lists and maps have no single value a row; the others are not Parquet values that a literal can express.
NO_LITERAL = {"li", "ma", "ls", "nothing", "iv", "tz"}


@pytest.mark.parametrize("name", BY_PEERS)
def test_rows_are_found_by_a_literal_of_every_type(name, peer_file):
    file = peer_file(name)
    columns = [leaf for leaf in file.leaves if leaf.split(".")[0] not in NO_LITERAL]
    skipped, wrong = 0, []
    with parquet_bloom.open(file.path) as opened:
        # INT96 has dates that pyarrow shows as other ones: they are found, and refused where they are to be shown.
        far = {leaf.name for leaf in opened.leaves if leaf.physical == "INT96"}
    for column in columns:
        rows = given_rows(file, column)
        shown = next(leaf for leaf in [column, *columns] if leaf not in far).split(".")[0]
        for value, literal in literals(file, column, rows).items():
            where = [(column, "=", literal)]
            expected = [i for i, row in enumerate(rows) if row == value]
            groups = {i // file.group_sizes[0] for i in expected}
            selected = parquet_bloom.prune(file.path, where).selected.get(str(file.path), [])
            if not groups <= set(selected):
                wrong.append((column, value, f"{selected} selected of {groups}"))
            result = parquet_bloom.read_table(file.path, where, columns=[shown])
            if result.num_rows != len(expected):
                wrong.append((column, value, f"{result.num_rows} rows found of {len(expected)}"))
            skipped += peers.GROUPS - len(selected)
    assert not wrong
    assert skipped >= len(columns)  # a reader that reads all would lose nothing, too


@pytest.mark.parametrize("name", BY_PEERS)
def test_whole_rows_come_back(name, peer_file):
    """All columns of the rows found, as pyarrow reads them: types that Arrow's kernels do not know included."""
    file = peer_file(name)
    column = next(leaf for leaf in ("i64", "c", "d18", "tz_us", "ym") if leaf in file.leaves)
    rows = given_rows(file, column)
    value = next(row for row in rows[file.group_sizes[0] :] if row is not None)
    result = parquet_bloom.read_table(file.path, [(column, "=", value)])
    expected = pq.read_table(file.path)
    pieces = [expected.slice(i, 1) for i, row in enumerate(rows) if row == value]
    assert peers.bits_of(result) == peers.bits_of(pa.concat_tables(pieces))


# ------------------------------------------------------------------------------------------------------------
# Theirs, embedded into by us
# ------------------------------------------------------------------------------------------------------------


def twice_hashed(physical: str, logical: str, plain: set[bytes]) -> set[bytes]:
    """Return the values that `embed` inserts for a chunk: both zeros if there is one, and float16 also as float32."""
    formats = {"FLOAT": "<f", "DOUBLE": "<d", "FIXED_LEN_BYTE_ARRAY": "<e"}
    if physical in ("FLOAT", "DOUBLE") or logical == "Float16":
        zeros = {struct.pack(formats[physical], 0.0), struct.pack(formats[physical], -0.0)}
        plain = plain | (zeros if zeros & plain else set())
    if logical == "Float16":
        plain = plain | {struct.pack("<f", *struct.unpack("<e", value)) for value in plain}
    return plain


def without_filters(footer: oracle.Struct) -> oracle.Struct:
    for group in footer.value(oracle.ROW_GROUPS).items:
        for chunk in group.value(oracle.COLUMNS).items:
            metadata = chunk.value(oracle.META_DATA)
            metadata.pop(oracle.OFFSET, None)
            metadata.pop(oracle.LENGTH, None)
    return footer


def assert_only_filters_changed(before: Any, after: Any) -> None:
    old, new = before.read_bytes(), after.read_bytes()
    start = oracle.footer_start(old)
    assert new[:start] == old[:start]
    assert without_filters(oracle.read_footer(after)) == without_filters(oracle.read_footer(before))
    old_table, new_table = pq.read_table(before), pq.read_table(after)
    assert new_table.schema.equals(old_table.schema, check_metadata=True)
    assert peers.bits_of(new_table) == peers.bits_of(old_table)


@pytest.mark.parametrize("name", BY_PEERS)
def test_embedding_changes_nothing_but_filters(name, plain_file, tmp_path):
    file = plain_file(name)
    assert not oracle.filters(file.path)
    columns = [leaf for leaf in file.leaves if leaf not in NOT_EMBEDDED]
    output = tmp_path / "embedded.parquet"
    report = parquet_bloom.embed(file.path, columns, output=output)
    assert_only_filters_changed(file.path, output)
    stored = oracle.filters(output)
    assert report.num_filters == len(stored) == peers.GROUPS * len(columns)
    assert report.bytes_added == output.stat().st_size - file.path.stat().st_size
    for (row_group, leaf), ours in stored.items():
        described = file.leaves[leaf]
        plain = twice_hashed(described.physical, described.logical, file.plain(row_group, leaf))
        assert ours.header == oracle.filter_header(len(ours.bitset))
        assert ours.length == ours.header_size + len(ours.bitset)
        assert ours.bitset == OracleFilter.of(len(ours.bitset), plain).to_bytes(), (row_group, leaf)
        assert len(ours.bitset) == oracle.smallest_num_bytes(len(plain), 0.01), (row_group, leaf)
    assert parquet_bloom.verify(output, data=True).ok


@pytest.mark.parametrize("name", BY_PEERS)
def test_embedding_keeps_the_filters_that_are_there(name, peer_file, tmp_path):
    file = peer_file(name)
    before = oracle.filters(file.path)
    columns = [leaf for leaf in file.leaves if leaf not in NOT_EMBEDDED]
    output = tmp_path / "embedded.parquet"
    report = parquet_bloom.embed(file.path, columns, output=output)
    assert_only_filters_changed(file.path, output)
    after = oracle.filters(output)
    expected = {(group, leaf) for group in range(peers.GROUPS) for leaf in columns}
    assert after.keys() == before.keys() | expected
    assert report.num_filters == len(expected - before.keys())
    for key, theirs in before.items():
        assert after[key].bitset == theirs.bitset, key
    problems = {chunk.column for chunk in parquet_bloom.verify(output, data=True).problems}
    assert problems <= NOT_EMBEDDED


@pytest.mark.parametrize("name", BY_PEERS)
def test_replacing_builds_all_filters_anew(name, peer_file, plain_file, tmp_path):
    """The filters of a file that had others are those of one that had none."""
    file = peer_file(name)
    # DuckDB probes the INTERVAL filters of its own files in another form: they get none.
    refused = {leaf for leaf, peer in file.leaves.items() if name.startswith("duckdb") and peer.logical == "Interval"}
    columns = [leaf for leaf in file.leaves if leaf not in NOT_EMBEDDED | refused]
    replaced, fresh = tmp_path / "replaced.parquet", tmp_path / "fresh.parquet"
    parquet_bloom.embed(file.path, columns, output=replaced, replace=True)
    parquet_bloom.embed(plain_file(name).path, columns, output=fresh)
    ours, others = oracle.filters(replaced), oracle.filters(fresh)
    for key, stored in others.items():
        assert ours[key].bitset == stored.bitset, key
    # Old filters at the tail are gone; those between row groups (DataFusion's) stay as dead bytes.
    kept_start = max(end for end in data_ends(file.path))
    assert replaced.read_bytes()[:kept_start] == file.path.read_bytes()[:kept_start]
    assert peers.bits_of(pq.read_table(replaced)) == peers.bits_of(pq.read_table(file.path))
    problems = {chunk.column for chunk in parquet_bloom.verify(replaced, data=True).problems}
    assert problems <= NOT_EMBEDDED


def data_ends(path: Any) -> list[int]:
    """Return the offset at which a file's column chunks end."""
    metadata = pq.read_metadata(path)
    ends = []
    for row_group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(row_group).column(index)
            offsets = [column.data_page_offset, column.dictionary_page_offset or column.data_page_offset]
            ends.append(min(offsets) + column.total_compressed_size)
    return ends


def test_written_tables_carry_the_same_filters(plain_file, tmp_path):
    """`write_table` makes the file that pyarrow writes and `embed` completes."""
    table = pq.read_table(plain_file("pyarrow-all").path)
    columns = [leaf for leaf in plain_file("pyarrow-all").leaves if leaf not in NOT_EMBEDDED]
    plain, embedded, written = (tmp_path / f"{name}.parquet" for name in ("plain", "embedded", "written"))
    pq.write_table(table, plain, row_group_size=peers.DISTINCT)
    parquet_bloom.embed(plain, columns, output=embedded)
    parquet_bloom.write_table(table, written, columns, row_group_size=peers.DISTINCT)
    theirs, ours = oracle.filters(embedded), oracle.filters(written)
    assert ours.keys() == theirs.keys()
    assert all(ours[key].bitset == theirs[key].bitset for key in theirs)
    assert peers.bits_of(pq.read_table(written)) == peers.bits_of(table)
    assert parquet_bloom.verify(written, data=True).ok

"""Pages and footers whose sizes and counts contradict each other: the rows are those of pyarrow, or a named error."""

from __future__ import annotations

import functools
import random
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.oracle.oracle import BINARY, BOOL, I32, I64, STRUCT, Struct
from support.writers import surgery

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.file.file_columns import find_leaves

CODECS = {"snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6}
OLD_ARROW, OTHER_WRITER = b"parquet-cpp version 1.5.1-SNAPSHOT", b"parquet-mr version 1.13.1 (build 1)"
TABLE = pa.table(
    {
        "v": pa.array([11, 12, None, 14], pa.int64()),
        "w": pa.array(["a", "bb", "ccc", "dddd"]),
        "row": pa.array(range(4), pa.int32()),
    }
)


def edit_pages(path, column, change):
    """Replace header and body of each page of a column of one row group by what `change` returns; no body drops it."""
    data, footer = path.read_bytes(), oracle.read_footer(path)
    (found,) = surgery.each_chunk(footer, column)
    metadata = found[1]
    start = surgery.first_byte(metadata)
    end, position, pages = start + metadata.value(7), start, b""
    while position < end:
        header, after = oracle.read_struct(data, position)
        position = after + header.value(3)
        header, body = change(header, data[after:position])
        if body is None:
            continue
        header.set(3, I32, len(body))
        pages += oracle.write_struct(header) + body
    metadata.set(7, I64, len(pages))
    metadata.set(9, I64, oracle.footer_start(data))  # behind all other pages
    metadata.pop(11, None)
    body = data[: oracle.footer_start(data)] + pages
    path.write_bytes(oracle.with_footer(body, oracle.write_struct(footer)))


def write_flagged(path, codec, writer, *, compress=True, table=TABLE):
    """Write data pages of version 2 of `v` and `w` that say that they are not compressed."""
    pq.write_table(
        table, path, compression="none", use_dictionary=False, data_page_version="2.0", write_statistics=False
    )

    def change(header, body):
        details = header.value(8)
        levels = details.value(5) + details.value(6)
        details.set(7, BOOL, False)
        packed = bytes(pa.Codec(codec).compress(body[levels:])) if compress else body[levels:]
        return header, body[:levels] + packed

    for column in ("v", "w"):
        edit_pages(path, column, change)

    def relabel(footer):
        footer.set(6, BINARY, writer)
        for column in ("v", "w"):
            for _, metadata in surgery.each_chunk(footer, column):
                metadata.set(4, I32, CODECS[codec])

    surgery.rewrite_footer(path, relabel)


def require_same_rows(path, columns=("v", "w"), **options):
    shown = pq.read_table(path).to_pylist()
    for column in columns:
        for value in {row[column] for row in shown} - {None}:
            rows = [row["row"] for row in shown if row[column] == value]
            where = [(column, "=", value)]
            assert parquet_bloom.read_table(path, where, **options)["row"].to_pylist() == rows, where
            assert parquet_bloom.dataset(str(path)).get(column, [value])["row"].to_pylist() == rows, where


@pytest.mark.ci
@pytest.mark.parametrize("codec", CODECS)
def test_pages_of_old_arrow_that_deny_their_compression(tmp_path, codec):
    path = tmp_path / "a.parquet"
    write_flagged(path, codec, OLD_ARROW)
    assert pq.read_table(path).equals(TABLE)
    require_same_rows(path)
    parquet_bloom.embed(path, ["v", "w"], output=tmp_path / "b.parquet")
    assert not parquet_bloom.verify(tmp_path / "b.parquet", data=True).problems
    require_same_rows(tmp_path / "b.parquet")


def test_pages_that_deny_their_compression_and_are_as_long_as_without_it(tmp_path):
    """Nothing but their writer's name tells them from pages that are not compressed."""
    rng, numbers = random.Random(1), []
    for _ in range(10_000):
        numbers = [rng.getrandbits(62) for _ in range(4)]
        numbers[1] = numbers[0] ^ rng.getrandbits(rng.randrange(1, 62))
        plain = b"".join(number.to_bytes(8, "little") for number in numbers)
        if len(plain) == len(pa.Codec("snappy").compress(plain)):
            break
    else:
        pytest.fail("no such page was found")
    path, table = tmp_path / "a.parquet", TABLE.set_column(0, "v", pa.array(numbers, pa.int64()))
    write_flagged(path, "snappy", OLD_ARROW, table=table)
    assert pq.read_table(path).equals(table)
    require_same_rows(path)


@pytest.mark.parametrize("codec", CODECS)
def test_pages_of_other_writers_that_are_not_compressed(tmp_path, codec):
    path = tmp_path / "a.parquet"
    write_flagged(path, codec, OTHER_WRITER, compress=False)
    assert pq.read_table(path).equals(TABLE)
    require_same_rows(path)


def test_writers_that_deny_compression(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path)
    for writer, expected in (
        *((OLD_ARROW, True), (b"parquet-cpp version 1.3.0", True), (b"Parquet-CPP", True), (OTHER_WRITER, False)),
        *((b"parquet-cpp-arrow version 2.0.0", False), (b"parquet-cpp version 2.0.0", False)),
    ):
        surgery.rewrite_footer(path, lambda footer, writer=writer: footer.set(6, BINARY, writer))
        with parquet_bloom.open(path) as file:
            assert file.footer.denies_compression is expected


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_that_are_not_as_long_as_they_say(tmp_path, version):
    def cut_body(header, body):
        return header, body[:-4]

    def set_unpacked(header, body, by=4):
        header.set(2, I32, header.value(2) + by)
        return header, body

    def set_repeats(header, body):  # pages of version 1 do not say how long their levels are
        header.value(8).set(6, I32, -1)
        return header, body

    changes = [cut_body, set_unpacked, functools.partial(set_unpacked, by=-4)]
    for number, change in enumerate(changes if version == "1.0" else [*changes, set_repeats]):
        path = tmp_path / f"{number}.parquet"
        options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        pq.write_table(TABLE, path, data_page_version=version, **options)
        edit_pages(path, "w", change)
        try:
            pq.read_table(path)
        except (OSError, pa.ArrowException):
            with pytest.raises(ParquetBloomError, match=re.escape(str(path))):
                parquet_bloom.read_table(path, "w = 'dddd'")
        else:
            require_same_rows(path)
        require_column(path, "v = 14", 3)


def require_column(path, where, row):
    """A defect of one column is that column's alone."""
    assert parquet_bloom.read_table(path, where, columns=["row"])["row"].to_pylist() == [row]


def set_in_chunk(column, number, value):
    def change(footer):
        for _, metadata in surgery.each_chunk(footer, column):
            metadata.set(number, I64, value)

    return change


@pytest.mark.parametrize("count", [5, 8, 3, 1 << 40])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_wrong_number_of_values_in_the_footer_alone(tmp_path, count, version):
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path, data_page_version=version)
    surgery.rewrite_footer(path, set_in_chunk("w", 5, count))
    assert pq.read_table(path).equals(TABLE)
    require_same_rows(path)
    parquet_bloom.embed(path, ["v", "w"], output=tmp_path / "b.parquet")
    require_same_rows(tmp_path / "b.parquet")
    assert not parquet_bloom.prune(tmp_path / "b.parquet", "w = 'no'").selected.get(str(tmp_path / "b.parquet"))


@pytest.mark.parametrize("count", [3, 8])
def test_pages_with_other_numbers_of_values_than_rows_are_an_error_of_their_column(tmp_path, count):
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path, use_dictionary=False, compression="none", write_statistics=False)
    longer = tmp_path / "b.parquet"
    values = TABLE["w"].to_pylist() * 2
    pq.write_table(
        pa.table({"w": values[:count]}), longer, use_dictionary=False, compression="none", write_statistics=False
    )
    data, footer = longer.read_bytes(), oracle.read_footer(longer)
    ((_, metadata),) = surgery.each_chunk(footer, "w")
    header, after = oracle.read_struct(data, surgery.first_byte(metadata))
    body = data[after : after + header.value(3)]
    edit_pages(path, "w", lambda *_: (header, body))
    for claimed in (4, count):
        surgery.rewrite_footer(path, set_in_chunk("w", 5, claimed))
        if claimed == count:
            with pytest.raises(ParquetBloomError, match=f"column 'w': metadata: {count} values in 4 rows"):
                parquet_bloom.read_table(path, "w = 'a'")
            with pytest.raises(ParquetBloomError, match="column 'w'"):
                parquet_bloom.embed(path, ["w"], output=tmp_path / "c.parquet")
        require_column(path, "v = 14", 3)
    if count < 4:  # whether other columns can be read by pages or not: no row is taken for another
        surgery.rewrite_footer(path, set_in_chunk("w", 5, 4))
        with pytest.raises(ParquetBloomError, match="row group 0"):
            parquet_bloom.read_table(path, "w = 'a'")


def test_rows_are_not_told_by_a_column_that_lacks_some(tmp_path):
    """Its values come to stand in other rows; the other columns were read by pages, so that nothing showed it."""
    table = pa.table({"w": [f"w{row}" for row in range(64)], "row": pa.array(range(64), pa.int32())})
    path = tmp_path / "a.parquet"
    options = {"use_dictionary": False, "write_batch_size": 16, "data_page_size": 50, "write_statistics": False}
    pq.write_table(table, path, compression="none", **options)
    pages = []

    def drop_second(header, body):
        pages.append(header)
        return (header, body) if len(pages) != 2 else (Struct(), None)

    edit_pages(path, "w", drop_second)
    with pytest.raises(ParquetBloomError, match=r"row group 0.*48"):
        parquet_bloom.read_table(path, "w = 'w40'")
    assert len(pages) == 4
    message = r"row group 0.*(48 rows instead of 64|expected length 64)"
    for where in (None, "w = 'w40'", "w > 'w'", "row >= 0"):  # nor by itself
        with pytest.raises(ParquetBloomError, match=message):
            parquet_bloom.dataset(path).scan(where, ["w"]).to_arrow()
    for where in ("w = 'w40'", "w > 'w'"):
        with pytest.raises(ParquetBloomError, match=message):
            parquet_bloom.dataset(path).scan(where).count_rows()


def test_numbers_of_one_column_do_not_keep_others_from_being_read(tmp_path):
    path = tmp_path / "a.parquet"
    for number in (5, 6, 7, 9, 11):  # of values, bytes and compressed bytes; the places of pages
        for value in (0, -1, 2, 1 << 40):
            pq.write_table(TABLE, path)
            surgery.rewrite_footer(path, set_in_chunk("w", number, value))
            require_column(path, "v = 14", 3)
            assert parquet_bloom.dataset(str(path)).get("v", [14], ["row"])["row"].to_pylist() == [3]


@pytest.mark.parametrize(("column", "copies"), [("v", 1), ("w", 1), ("v", 20_000)])
def test_a_column_annotated_unknown_is_null_whatever_it_stores(tmp_path, column, copies):

    def mark_as_null(path, column):
        annotation = Struct({11: (STRUCT, Struct())})

        def change(footer):
            element = surgery.schema_element(footer, column)
            for number in (6, 10):
                element.pop(number, None)
            element.set(10, STRUCT, annotation)

        surgery.rewrite_footer(path, change)

    table = pa.concat_tables([TABLE.filter(TABLE["v"].is_valid())] * copies)
    for name in "ab":  # one file, and several that are planned together
        path = tmp_path / f"{name}.parquet"
        pq.write_table(table, path, store_schema=False, write_page_index=True, use_dictionary=False)
        mark_as_null(path, column)
        assert pq.read_table(path)[column].null_count == table.num_rows
    for where, count in ((f"{column} IS NULL", table.num_rows), (f"{column} IS NULL AND row = 3", copies)):
        assert parquet_bloom.read_table(path, where).num_rows == count
        assert parquet_bloom.read_table(str(tmp_path), where).num_rows == 2 * count
    assert not parquet_bloom.read_table(path, f"{column} IS NOT NULL").num_rows


def test_names_of_wide_schemas_are_found_as_those_of_small_ones(tmp_path):
    names = ["a", "A", "a.b", "s", "ab", "a-b", "B", "b.c", "ß"]
    fields = [pa.field(f"{name}{number or ''}", pa.int32()) for number in range(12) for name in names]
    nested = [pa.field(f"g{number}", pa.struct([("x", pa.int32()), ("y", pa.int32())])) for number in range(5)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.schema([*fields, *nested]).empty_table(), path)
    with parquet_bloom.open(path) as file:
        leaves = file.leaves
        asked = {leaf.name for leaf in leaves} | {part.split(".")[0] for part in file.columns}
        for name in sorted(asked | {name.upper() for name in asked} | {"", ".", "g", "g1.", "nothing"}):
            for ignore_case in (False, True):
                folded = [leaf.name.lower() if ignore_case else leaf.name for leaf in leaves]
                path_of = name.lower() if ignore_case else name
                exact = [leaf for leaf, one in zip(leaves, folded, strict=True) if one == path_of]
                below = [leaf for leaf, one in zip(leaves, folded, strict=True) if one.startswith(f"{path_of}.")]
                assert find_leaves(leaves, name, ignore_case) == (exact or below)

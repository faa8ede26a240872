"""Filters embedded into files: what is written, what stays, and what is refused with nothing changed."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import struct
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.oracle.oracle import OracleFilter
from support.writers import surgery
from support.writers.own_filters import needs_own_filters

import parquet_bloom
from parquet_bloom import errors

ROWS, GROUPS = 120, 3


def make_table(rows: int = ROWS) -> pa.Table:
    rng = random.Random(7)
    # Without it older releases of pyarrow sort the fields.
    user = pa.struct({"key": pa.int64(), "home": pa.struct({"city": pa.string()})})
    return pa.table(
        {
            "id": pa.array([rng.randrange(2**60) for _ in range(rows)]),
            "name": pa.array([None if i % 7 == 0 else f"name {rng.randrange(2**40)}" for i in range(rows)]),
            "flag": pa.array([i % 2 == 0 for i in range(rows)]),
            "user": pa.array([{"key": i % 50, "home": {"city": f"c{i}"}} for i in range(rows)], user),
            "tags": pa.array([[f"t{i}", f"t{i + 1}"][: i % 3] for i in range(rows)]),
            "map": pa.array([[(f"k{i}", i)] for i in range(rows)], pa.map_(pa.string(), pa.int32())),
        }
    )


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A file of three row groups without filters."""
    path = tmp_path / "plain.parquet"
    pq.write_table(make_table(), path, row_group_size=ROWS // GROUPS)
    return path


def body(path: Path) -> bytes:
    data = path.read_bytes()
    return data[: oracle.footer_start(data)]


def filters(path: Path) -> dict[tuple[int, str], oracle.StoredFilter]:
    return oracle.filters(path)


def assert_sound(path: Path) -> None:
    """Check that every filter agrees with the data, each after the last, and that pyarrow reads the file."""
    report = parquet_bloom.verify(path, data=True)
    assert report.ok, [str(problem) for problem in report.problems]
    paths = sorted((stored.offset, stored.offset + stored.length) for stored in filters(path).values())
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(paths))
    pq.read_table(path)


def assert_refused(kind: type[Exception], path: Path, columns: Any, match: str, **options: Any) -> str:
    """Return the error, after checking that it is ours, on one line, and that no file was changed or left."""
    before = {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    with pytest.raises(kind, match=match) as caught:
        parquet_bloom.embed(path, columns, **options)
    assert isinstance(caught.value, errors.ParquetBloomError)
    assert "\n" not in str(caught.value)
    assert {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()} == before
    return str(caught.value)


# ------------------------------------------------------------------------------------------------------------
# What is written
# ------------------------------------------------------------------------------------------------------------


def test_filters_of_the_values(plain):
    before, table = plain.read_bytes(), pq.read_table(plain)
    report = parquet_bloom.embed(plain, ["name", "id"])
    assert plain.read_bytes().startswith(before[: oracle.footer_start(before)])
    assert pq.read_table(plain).equals(table)
    stored = filters(plain)
    assert list(stored) == [(group, column) for group in range(GROUPS) for column in ("id", "name")]
    assert [entry.offset for entry in stored.values()] == sorted(entry.offset for entry in stored.values())
    end = oracle.footer_start(before)
    for (group, column), entry in stored.items():
        rows = table[column].slice(group * ROWS // GROUPS, ROWS // GROUPS).to_pylist()
        values = {oracle.plain(v, "INT64" if column == "id" else "BYTE_ARRAY") for v in rows if v is not None}
        assert entry.offset == end
        assert entry.length == entry.header_size + len(entry.bitset)
        assert entry.header == oracle.filter_header(len(entry.bitset))
        assert len(entry.bitset) == oracle.smallest_num_bytes(len(values), 0.01)
        assert entry.bitset == OracleFilter.of(len(entry.bitset), values).to_bytes()
        end += entry.length
    assert end == oracle.footer_start(plain.read_bytes())
    assert report.num_filters == 6
    assert [(f.row_group, f.column) for f in report.filters] == list(stored)
    assert report.changed
    assert (report.kept, report.dead_bytes) == (0, 0)
    assert (report.path, report.output) == (str(plain), str(plain))
    assert (report.old_size, report.new_size) == (len(before), plain.stat().st_size)
    assert report.bytes_added == plain.stat().st_size - len(before)
    assert all(f.ndv <= 40 and f.fpp <= 0.01 and f.num_bytes >= 64 for f in report.filters)
    assert str(report) == f"{plain}: 6 filters, +{report.bytes_added:,} bytes"
    assert report.seconds > 0


def test_ways_to_name_columns_and_set_sizes(plain):
    data = plain.read_bytes()
    for columns, *names in (
        *(("id", "id"), (["id"], "id"), (("id", "name"), "id", "name"), (dict.fromkeys(["id"]).keys(), "id")),
        *(({"name": None, "id": 0.001}, "id", "name"), ({"id": {"fpp": 0.001}}, "id"), ({"id": {"ndv": 5000}}, "id")),
        *(({"id": {}}, "id"), (["user.key"], "user.key"), (["user.home.city"], "user.home.city")),
        (["user.home"], "user.home.city"),  # a group of one leaf may be called by its own name
        *((["tags"], "tags.list.element"), (["tags.list.element"], "tags.list.element")),
        (["map.key_value.key", "map.key_value.value"], "map.key_value.key", "map.key_value.value"),
    ):
        plain.write_bytes(data)
        parquet_bloom.embed(plain, columns)
        assert {column for _, column in filters(plain)} == set(names)
        assert_sound(plain)
    for fpp in (0.5, 0.1, 0.001, 1e-9):
        plain.write_bytes(data)
        parquet_bloom.embed(plain, {"id": fpp, "user.key": {"fpp": fpp, "power_of_two": False}})
        for (_, column), stored in filters(plain).items():
            assert len(stored.bitset) == oracle.smallest_num_bytes(40, fpp, power_of_two=column == "id")


def test_requested_sizes(plain):
    parquet_bloom.embed(plain, {"id": {"ndv": 100_000, "fpp": 0.05}, "name": {"ndv": 0}}, power_of_two=False)
    sizes = {column: len(stored.bitset) for (_, column), stored in filters(plain).items()}
    assert sizes == {"id": oracle.smallest_num_bytes(100_000, 0.05, False), "name": 32}
    assert_sound(plain)


def test_settings_that_cannot_be(plain):
    not_a_rate = [0, 1.5, "0.1", True, float("nan"), {"fpp": None}, [0.1]]
    for columns, problem in (
        *(([], "no column"), ({}, "no column"), ([5], "dotted path"), ({5: None}, "dotted path")),
        *(({"id": rate}, "between 0 and 1") for rate in not_a_rate),
        *(({"id": {"ndv": ndv}}, "whole number") for ndv in (-1, 1.5, True)),
        ({"id": {"size": 5}}, "unknown setting 'size'"),
        *((columns, "columns must be a list or mapping") for columns in (None, 5, object(), [["id"]], [{"id": 1}])),
    ):
        assert_refused(errors.ParquetBloomError, plain, columns, problem)
    for fpp in (0, 1, "x", None, float("nan")):
        assert_refused(errors.ParquetBloomError, plain, ["id"], "between 0 and 1", fpp=fpp)
    for threads in (0, -1, 1.5, "2", True):
        assert_refused(errors.ParquetBloomError, plain, ["id"], "threads must be", threads=threads)
    assert_refused(errors.ParquetBloomError, plain, ["id"], "power_of_two must be", power_of_two="no")
    assert_refused(errors.StorageError, plain, ["id"], "the path is empty", output="")  # not the file itself
    columns = {"id": {"fpp": np.float32(0.01), "ndv": np.int64(1000)}}  # numbers of NumPy's are numbers
    assert parquet_bloom.embed(plain, columns).filters[0].num_bytes == 2048


def test_many_rows_in_one_row_group(tmp_path):
    """More than one batch of decoded rows, with repetitions."""
    path = tmp_path / "a.parquet"
    values = np.arange(200_000) % 150_000
    pq.write_table(pa.table({"v": values}), path)
    report = parquet_bloom.embed(path, {"v": {"power_of_two": False}})
    assert report.filters[0].ndv == 150_000
    assert report.filters[0].num_bytes == oracle.smallest_num_bytes(150_000, 0.01, False)
    assert_sound(path)


# ------------------------------------------------------------------------------------------------------------
# Where it is written
# ------------------------------------------------------------------------------------------------------------


def test_an_output_leaves_the_file_alone(plain, tmp_path):
    before = plain.read_bytes()
    output = tmp_path / "out.parquet"
    report = parquet_bloom.embed(plain, ["id"], output=output)
    assert plain.read_bytes() == before
    assert (report.path, report.output) == (str(plain), str(output))
    assert_sound(output)
    parquet_bloom.embed(plain, ["name"], output=str(output))  # what is there is replaced
    assert {column for _, column in filters(output)} == {"name"}
    parquet_bloom.embed(
        output, ["name"], output=tmp_path / "copy.parquet"
    )  # nothing to add, but an output was requested
    assert (tmp_path / "copy.parquet").read_bytes() == output.read_bytes()


def test_an_output_that_is_the_file(plain, tmp_path, monkeypatch):
    link = tmp_path / "link.parquet"
    link.symlink_to(plain)
    monkeypatch.chdir(tmp_path)
    for columns, path, output in (
        ("id", plain, str(plain)),
        ("name", "plain.parquet", link),
        ("user.key", link, None),
    ):
        report = parquet_bloom.embed(path, columns, output=output)
        assert report.changed
    assert link.is_symlink()
    assert {column for _, column in filters(plain)} == {"id", "name", "user.key"}
    assert_sound(plain)


def test_threads_change_nothing(plain, tmp_path):
    results = [tmp_path / f"{threads}.parquet" for threads in (1, 2, 7)]
    for path in results:
        parquet_bloom.embed(plain, ["id", "name", "user.key", "tags"], output=path, threads=int(path.stem))
    assert len({path.read_bytes() for path in results}) == 1


# ------------------------------------------------------------------------------------------------------------
# Filters that are there
# ------------------------------------------------------------------------------------------------------------


def test_again_changes_nothing(plain):
    parquet_bloom.embed(plain, ["id", "name"])
    before, stat = plain.read_bytes(), plain.stat()
    report = parquet_bloom.embed(plain, ["name", "id"])
    assert (report.changed, report.kept, report.num_filters, report.bytes_added) == (False, 6, 0, 0)
    assert plain.read_bytes() == before
    assert plain.stat().st_ino == stat.st_ino
    assert "nothing to add" in str(report)


def test_replacing_does_not_let_the_file_grow(plain):
    sizes = []
    for fpp in (0.01, 0.5, 0.01):
        report = parquet_bloom.embed(plain, ["id", "name"], fpp=fpp, replace=True)
        assert (report.num_filters, report.kept, report.dead_bytes) == (6, 0, 0)
        sizes.append(plain.stat().st_size)
        assert_sound(plain)
    assert sizes[0] == sizes[2] > sizes[1]


def test_replacing_some_moves_the_others(plain):
    """The kept ones stand between those that go: they are moved together with their bits."""
    parquet_bloom.embed(plain, ["id"])
    assert parquet_bloom.embed(plain, ["id", "name", "user.key"], replace=True).num_filters == 9  # what is missing, too
    old, end = filters(plain), oracle.footer_start(plain.read_bytes())
    report = parquet_bloom.embed(plain, {"id": 0.5}, replace=True)
    new = filters(plain)
    assert new.keys() == old.keys()
    assert (report.num_filters, report.dead_bytes) == (3, 0)
    for key, stored in new.items():
        assert (stored.bitset == old[key].bitset) == (key[1] != "id")
    shrunk = sum(stored.length for stored in old.values()) - sum(stored.length for stored in new.values())
    assert oracle.footer_start(plain.read_bytes()) == end - shrunk
    assert_sound(plain)


@pytest.mark.parametrize("is_index", [pytest.param(True, marks=needs_own_filters), False])
def test_filters_that_cannot_be_cut_off_stay_dead(plain, is_index):
    """Bytes after them, of page indexes or of somebody's, are not known to be filters, so none of them is moved."""
    if is_index:
        options = {"write_page_index": True, "bloom_filter_options": {"id": {"ndv": 50}}}
        pq.write_table(make_table(), plain, row_group_size=50, **options)
    else:
        parquet_bloom.embed(plain, ["id", "name"])
        surgery.with_bytes_before_the_footer(plain, b"page indexes" * 9)
    before, old = body(plain), filters(plain)
    report = parquet_bloom.embed(plain, ["id"], replace=True)
    assert report.dead_bytes == sum(stored.length for (_, column), stored in old.items() if column == "id")
    assert "dead bytes" in str(report)
    assert body(plain).startswith(before)
    assert_sound(plain)
    again = parquet_bloom.embed(plain, ["id"], replace=True)  # the new ones stand at the tail
    assert again.dead_bytes == 0
    assert body(plain).startswith(before)


def test_filters_between_row_groups(plain):
    parquet_bloom.embed(plain, ["id"])
    surgery.with_filter_moved_between_row_groups(plain, "id")
    assert_sound(plain)
    old, before = filters(plain), body(plain)
    assert old[0, "id"].offset < old[1, "id"].offset
    retained = parquet_bloom.embed(plain, ["id", "name"])
    assert (retained.kept, retained.dead_bytes) == (3, 0)
    assert body(plain).startswith(before)
    assert_sound(plain)
    report = parquet_bloom.embed(plain, ["id"], replace=True)
    assert report.dead_bytes == old[0, "id"].length
    assert_sound(plain)


def test_filters_without_a_length(plain):
    parquet_bloom.embed(plain, ["id", "name"])
    surgery.without_lengths(plain)
    assert parquet_bloom.verify(plain, data=True).ok
    assert parquet_bloom.embed(plain, ["id"]).kept == 3
    report = parquet_bloom.embed(plain, ["id"], replace=True)
    assert report.dead_bytes == 0
    assert all(stored.length for stored in filters(plain).values())  # those that were moved get one


# ------------------------------------------------------------------------------------------------------------
# Files with little in them
# ------------------------------------------------------------------------------------------------------------


def test_no_row_groups(tmp_path):
    path = tmp_path / "a.parquet"
    pq.ParquetWriter(path, make_table().schema).close()
    before = path.read_bytes()
    report = parquet_bloom.embed(path, ["id"])
    assert (report.changed, report.num_filters) == (False, 0)
    parquet_bloom.embed(path, ["id"], output=tmp_path / "b.parquet")
    assert (tmp_path / "b.parquet").read_bytes() == path.read_bytes() == before


def test_row_groups_without_rows(tmp_path):
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, make_table().schema) as writer:
        for rows in (0, 5, 0):
            writer.write_table(make_table(5)[:rows])
    report = parquet_bloom.embed(path, ["id", "tags"])
    with_rows = [
        i for i in range(pq.read_metadata(path).num_row_groups) if pq.read_metadata(path).row_group(i).num_rows
    ]
    assert {f.row_group for f in report.filters} == set(with_rows)
    assert_sound(path)
    assert not parquet_bloom.embed(path, ["id", "tags"]).changed


@pytest.mark.parametrize(
    "column",
    [
        pa.array([None, None], pa.int64()),
        pa.array([[], None], pa.list_(pa.string())),
        pa.array([[None], [None]], pa.list_(pa.string())),
        pa.array([None, {"a": None}], pa.struct([("a", pa.int32())])),
        pa.nulls(2),
    ],
    ids=lambda column: str(column.type),
)
def test_nothing_but_nulls(tmp_path, column):
    """If the footer says so, the filter is empty; else nobody may trust such a filter, and there is none."""
    path = tmp_path / "a.parquet"
    if column.type != pa.null():
        pq.write_table(pa.table({"c": column}), path)
        assert [f.num_bytes for f in parquet_bloom.embed(path, ["c"]).filters] == [32]
        assert_sound(path)
        assert not parquet_bloom.embed(path, ["c"]).changed
        assert parquet_bloom.embed(path, ["c"], replace=True).num_filters == 1
    pq.write_table(pa.table({"c": column, "d": [1, 2]}), path, write_statistics=False)
    before = path.read_bytes()
    for _ in range(2):  # a second call is not an error
        report = parquet_bloom.embed(path, ["c"])
        assert (report.changed, report.num_filters, report.bytes_added) == (False, 0, 0)
        assert path.read_bytes() == before
    assert [f.column for f in parquet_bloom.embed(path, ["c", "d"]).filters] == ["d"]
    assert_sound(path)


@needs_own_filters
def test_an_empty_filter_over_nulls(tmp_path):
    """As pyarrow writes it, where only the values, and not the footer, show that there is nothing."""
    path = tmp_path / "a.parquet"
    table = pa.table({"c": pa.array([None, None], pa.int64()), "d": [1, 2]})
    options = {"c": {"ndv": 2}, "d": {"ndv": 2}}
    pq.write_table(table, path, write_statistics=False, bloom_filter_options=options)
    assert len(filters(path)) == 2
    assert not parquet_bloom.verify(path).ok
    assert parquet_bloom.verify(path, data=True).ok
    assert (parquet_bloom.embed(path, ["c"]).kept, len(filters(path))) == (1, 2)
    report = parquet_bloom.embed(path, ["c"], replace=True)
    assert (report.changed, report.num_filters) == (True, 0)
    assert list(filters(path)) == [(0, "d")]
    assert parquet_bloom.verify(path).ok


# ------------------------------------------------------------------------------------------------------------
# Types whose values are easily lost
# ------------------------------------------------------------------------------------------------------------


def only_bitset(path: Path) -> bytes:
    (stored,) = filters(path).values()
    return stored.bitset


@pytest.mark.skipif(
    pa.__version__.split(".")[0] in ("21", "22"), reason="pyarrow 21 and 22 write negative times of day before 1970"
)
def test_int96_from_the_first_day_to_the_last(tmp_path):
    """Of which pyarrow shows other values: what is hashed are the twelve bytes that are stored."""
    path = tmp_path / "a.parquet"
    moments = [
        dt.datetime(1, 1, 1),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
        dt.datetime(1969, 12, 31, 23),
        None,
    ]
    table = pa.table({"t": pa.array(moments, pa.timestamp("us"))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    parquet_bloom.embed(path, ["t"])
    plain = [oracle.plain(moment, "INT96") for moment in moments if moment]
    assert only_bitset(path) == OracleFilter.of(32, plain).to_bytes()
    with parquet_bloom.open(path) as file:
        bloom_filter = file.filter(0, "t")
        assert bloom_filter.check(table["t"]).all()
        assert all(moment in bloom_filter for moment in moments)
        assert dt.datetime(1754, 8, 30, 22, 43, 41, 128654) not in bloom_filter  # what pyarrow makes of the first
    assert_sound(path)


def test_int96_that_is_not_a_time_of_day(tmp_path):
    """Nanoseconds past midnight: readers show the next day, under which no filter would find it."""
    path = tmp_path / "a.parquet"
    raw = [struct.pack("<qi", nanos, 2_440_588) for nanos in (0, 86_400 * 10**9)]
    pq.write_table(pa.table({"t": pa.array(raw, pa.binary(12))}), path)
    surgery.relabel(path, "t", None, physical=3)
    surgery.rewrite_footer(path, lambda footer: surgery.schema_element(footer, "t").pop(2))
    message = assert_refused(errors.UnreadableColumnError, path, ["t"], "time of day")
    assert "row group 0, column 't'" in message


@pytest.mark.parametrize("surplus", [0, 1, 20])
def test_decimals_longer_than_needed(tmp_path, surplus):
    """Hashes are of the stored values; a probe tries all lengths."""
    path = tmp_path / "a.parquet"
    values = [Decimal("1.25"), Decimal("-1.25"), Decimal("0.00"), Decimal("99999.99")]
    raw = [
        int(v * 100).to_bytes(len(oracle.stored(v, "BYTE_ARRAY", scale=2)) + surplus, "big", signed=True)
        for v in values
    ]
    pq.write_table(pa.table({"d": pa.array(raw, pa.binary())}), path)
    surgery.relabel(path, "d", surgery.decimal_annotation(9, 2))
    parquet_bloom.embed(path, ["d"])
    assert only_bitset(path) == OracleFilter.of(len(only_bitset(path)), raw).to_bytes()
    with parquet_bloom.open(path) as file:
        bloom_filter = file.filter(0, "d")
        assert bloom_filter.check(values).all()
    for value in values if surplus < 10 else ():  # pyarrow reads no more than 16 bytes
        assert pq.read_table(path)["d"].to_pylist() == values
        assert parquet_bloom.read_table(path, [("d", "=", value)])["d"].to_pylist() == [value]
    assert parquet_bloom.verify(path, data=True).ok


def test_values_outside_of_their_type(tmp_path):
    """Decimals that no probe would find, for their length, and integers of more bits than are announced."""
    path = tmp_path / "a.parquet"
    for length in (0, 33, 100):
        pq.write_table(pa.table({"d": pa.array([b"\x05", bytes(length)], pa.binary())}), path)
        surgery.relabel(path, "d", surgery.decimal_annotation(9, 2))
        assert_refused(errors.UnreadableColumnError, path, ["d"], "bytes")
    for bits, signed, value in ((8, True, 200), (8, True, -129), (16, False, -1), (8, False, 256)):
        pq.write_table(pa.table({"i": pa.array([5, value], pa.int32())}), path)
        surgery.relabel(path, "i", surgery.integer_annotation(bits, signed))
        assert_refused(errors.UnreadableColumnError, path, ["i"], "outside its type")


@pytest.mark.parametrize("arrow_type", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("values", [[0.0, 1.5], [-0.0, 1.5], [1.5, 2.5], [float("nan"), 1.5]])
def test_zeros_and_halves(tmp_path, arrow_type, values):
    """Both zeros where one is; float16 also as float32, as DuckDB looks for it."""
    path = tmp_path / "a.parquet"
    array = pa.array(np.array(values)).cast(arrow_type)
    pq.write_table(pa.table({"f": array}), path)
    report = parquet_bloom.embed(path, ["f"])
    assert report.filters[0].ndv == 2
    form = {16: "<e", 32: "<f", 64: "<d"}[arrow_type.bit_width]
    forms = {form, "<f"} if form == "<e" else {form}
    with_zeros = values + [0.0, -0.0] * (0.0 in values)
    stored = array.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[arrow_type.bit_width]).to_numpy()
    plain = {raw.tobytes() for raw in stored} | {struct.pack(f, v) for f in forms for v in with_zeros if v == v}
    if form == "<e":
        plain |= {raw.tobytes() for raw in array.cast(pa.float32()).to_numpy()}
    assert only_bitset(path) == OracleFilter.of(len(only_bitset(path)), plain).to_bytes()
    assert_sound(path)


def test_many_halves_are_counted_once(tmp_path):
    """Their float32 forms too: a filter over all 65,536 of them, many times over, is not eight times too large."""
    path = tmp_path / "a.parquet"
    values = np.tile(np.arange(0, 0x7C00, dtype=np.uint16).view(np.float16), 12)
    pq.write_table(pa.table({"h": pa.array(values)}), path)
    report = parquet_bloom.embed(path, {"h": {"power_of_two": False}})
    assert report.filters[0].ndv == 0x7C00
    assert report.filters[0].num_bytes == oracle.smallest_num_bytes(2 * 0x7C00 + 2, 0.01, False)


# ------------------------------------------------------------------------------------------------------------
# What is refused
# ------------------------------------------------------------------------------------------------------------


def test_columns_that_get_none(plain):
    unknown, unsupported = errors.UnknownColumnError, errors.UnsupportedTypeError
    for columns, kind, problem in (
        *(
            (["nope"], unknown, "no such column"),
            (["id", "nope"], unknown, "nope"),
            (["ID"], unknown, "no such column"),
        ),
        (["user"], unknown, "several columns match the name: user.key, user.home.city"),
        *((["map"], unknown, "several columns"), (["tags", "tags.list.element"], unknown, "named twice")),
        *((["flag"], unsupported, "BOOLEAN"), (["id", "flag"], unsupported, "column 'flag'")),
    ):
        assert str(plain) in assert_refused(kind, plain, columns, problem)


@pytest.mark.parametrize("column", ["id", "name"])
@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_encrypted_files(tmp_path, column, plaintext_footer):
    table, path = make_table().select(["id", "name"]), tmp_path / "a.parquet"
    surgery.encrypted(path, table, plaintext_footer=plaintext_footer, columns=(column,))
    for replace in (False, True):
        match = "signed" if plaintext_footer else "encrypted"
        assert_refused(errors.EncryptedFileError, path, ["id"], match, replace=replace)
    assert_refused(errors.EncryptedFileError, path, ["id"], "footer", output=tmp_path / "out.parquet")


def test_data_in_another_file(plain):
    surgery.in_another_file(plain, "id")
    assert_refused(errors.UnreadableColumnError, plain, ["id"], "another file")
    parquet_bloom.embed(plain, ["name"])


def test_files_that_are_not_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    kinds = errors.NotParquetError, errors.TruncatedFileError, errors.MalformedFooterError
    for content in (b"", b"PAR1", b"PAR1PAR1", b"x" * 100, b"PAR1" + b"\xff\xff\xff\x7fPAR1", b"ORC" * 9):
        path.write_bytes(content)
        for call in (
            lambda: parquet_bloom.embed(path, ["id"]),
            lambda: parquet_bloom.open(path),
            lambda: parquet_bloom.verify(path),
            lambda: parquet_bloom.prune(path, "id = 1"),
        ):
            with pytest.raises(kinds) as caught:
                call()
            assert str(path) in str(caught.value)
        assert path.read_bytes() == content
    pq.write_table(make_table(), path)
    path.write_bytes(b"XXXX" + path.read_bytes()[4:])
    assert_refused(errors.NotParquetError, path, ["id"], "does not begin with PAR1")


def test_every_truncation_is_refused(plain):
    data = plain.read_bytes()
    cut = plain.with_name("cut.parquet")
    for length in [*range(0, len(data), 997), *range(len(data) - 12, len(data))]:
        cut.write_bytes(data[:length])
        with pytest.raises(errors.ParquetBloomError):
            parquet_bloom.embed(cut, ["id"])
        assert cut.read_bytes() == data[:length]


def test_files_of_tables(plain):
    for marker in ("_delta_log", "_spark_metadata", ".hoodie", "metadata/v1.metadata.json", "schema/schema-3"):
        folder = plain.parent / marker.replace("/", "")
        (folder / "day=1").mkdir(parents=True)
        inside = folder / "day=1" / "a.parquet"
        inside.write_bytes(plain.read_bytes())
        location = folder / marker
        location.parent.mkdir(exist_ok=True)
        location.write_text("{}") if location.suffix else location.mkdir()
        assert_refused(errors.ManagedTableError, inside, ["id"], "table|stream|sizes")
        with pytest.raises(errors.ManagedTableError):
            parquet_bloom.embed(plain, ["id"], output=inside)
        assert inside.read_bytes() == plain.read_bytes()


@needs_own_filters
def test_columns_of_one_name(tmp_path):
    """A dotted name and a struct's leaf: no one knows which is meant, but other columns go on."""
    path = tmp_path / "a.parquet"
    table = pa.table([pa.array([1, 2]), pa.array([{"b": 3}, {"b": 4}]), pa.array([5, 6])], names=["a.b", "a", "c"])
    pq.write_table(table, path, bloom_filter_options={"a.b": {"ndv": 10}})
    assert len(list(parquet_bloom.open(path).chunks())) == 2
    assert parquet_bloom.verify(path, data=True).ok
    assert_refused(errors.UnknownColumnError, path, ["a.b"], "several columns")
    parquet_bloom.embed(path, ["c"], replace=True)
    assert parquet_bloom.verify(path, data=True).ok
    assert len(list(parquet_bloom.open(path).chunks())) == 3


@pytest.mark.ci
def test_thousands_of_columns_and_of_row_groups_take_no_time(tmp_path):
    """Names are looked up, not searched for: this took a minute once."""
    path = tmp_path / "a.parquet"
    names = [f"c{i}" for i in range(3000)]
    pq.write_table(pa.table({name: [i] for i, name in enumerate(names)}), path)
    started = time.process_time()
    assert parquet_bloom.embed(path, names).num_filters == 3000
    assert parquet_bloom.embed(path, names[:5], replace=True).num_filters == 5
    pq.write_table(make_table(2000).select(["id", "name"]), path, row_group_size=1)
    assert parquet_bloom.embed(path, ["id", "name"]).num_filters > 3000
    assert time.process_time() - started < 30
    assert parquet_bloom.verify(path).ok


def test_odd_names(tmp_path):
    """Even one that is not text, which pyarrow cannot show: the values are read all the same."""
    path = tmp_path / "a.parquet"
    for raw in (*map(str.encode, ("a.b", "", ".", " ", "a\nb", "list", "日本")), b"\xff\xfe"):
        pq.write_table(pa.table({"x": ["a", "b"], "y": [1, 2]}), path)

        def rename(footer: oracle.Struct, raw: bytes = raw) -> None:
            surgery.schema_element(footer, "x").set(4, oracle.BINARY, raw)
            for _, metadata in surgery.each_chunk(footer, "x"):
                metadata.set(3, oracle.LIST, oracle.Many(oracle.BINARY, [raw]))

        surgery.rewrite_footer(path, rename)
        shown = raw.decode("utf-8", "replace")
        assert [f.column for f in parquet_bloom.embed(path, [shown]).filters] == [shown]
        assert parquet_bloom.verify(path, data=True).ok
        with parquet_bloom.open(path) as file:
            assert file.filter(0, shown).check(["a", "b", "c"]).tolist() == [True, True, False]


def test_intervals_of_a_file_that_duckdb_probes_in_its_own_form(tmp_path: Path) -> None:
    """DuckDB looks for 40 days as a month and 10 days where the footer says so: a filter of 40 days hid the row."""
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "a.parquet"
    rows = "SELECT to_days(40 + (range % 500)::INT) iv, range id FROM range(4096)"
    duckdb.sql(f"COPY ({rows}) TO '{path}' (ROW_GROUP_SIZE 2048)")

    def count(days: int) -> int:
        return duckdb.sql(f"SELECT count(*) FROM '{path}' WHERE iv = INTERVAL '{days} days'").fetchall()[0][0]

    expected = {days: count(days) for days in range(40, 540, 25)}
    assert 0 not in expected.values()
    before = path.read_bytes()
    with parquet_bloom.open(path) as file:
        declared = b"duckdb.interval_bloom_filter" in file.footer.key_value_metadata
    assert declared
    for replace in (False, True):
        with pytest.raises(errors.UnsupportedTypeError, match="normalised intervals"):
            parquet_bloom.embed(path, ["id", "iv"], replace=replace)
    assert path.read_bytes() == before
    parquet_bloom.embed(path, ["id"], replace=True)  # other columns get theirs
    assert {days: count(days) for days in expected} == expected
    without = tmp_path / "b.parquet"  # a file without that key gets filters
    duckdb.sql(f"COPY ({rows}) TO '{without}' (ROW_GROUP_SIZE 2048, WRITE_BLOOM_FILTER false)")
    assert len(parquet_bloom.embed(without, ["iv"]).filters) == 2
    assert duckdb.sql(f"SELECT count(*) FROM '{without}' WHERE iv = INTERVAL '40 days'").fetchall() == [(9,)]


def test_size_statistics_and_column_indexes_stay(tmp_path):
    """Every field of a column chunk but those of its filter is what it was, histograms of levels included."""
    path = tmp_path / "a.parquet"
    table = pa.table({"s": ["a", None, "bcd"], "tags": pa.array([["x"], [], None]), "k": [1, 2, 3]})
    pq.write_table(table, path, write_page_index=True)

    def describe():
        chunks = [metadata for _, metadata in surgery.each_chunk(oracle.read_footer(path))]
        return [{number: value for number, value in one.items() if number not in (14, 15)} for one in chunks]

    before, size_statistics = describe(), 16
    assert before[0][size_statistics][1].value(1) == 4
    assert before[1][size_statistics][1].value(3).items == [1, 1, 0, 1]
    assert parquet_bloom.embed(path, ["s", "tags.list.element", "k"]).num_filters == 3
    assert describe() == before
    assert parquet_bloom.drop(path, ["k"]).num_filters == 1
    assert describe() == before

"""`show` and `verify`, on Parquet and ORC files: what filters are there, and which deny values that are there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc as arrow_orc
from support.writers.shredded_variants import make_variants

import parquet_bloom
from parquet_bloom import orc


def test_rows_say_what_the_file_says(lake, run):
    names = ("row_group", "column", "offset", "length", "num_blocks", "fill", "fpp", "ndv_estimate")
    of_orc = ("stripe", "column", "fill", "fpp", "ndv_estimate")
    shown = run("show", "lake", "orc", "--format", "ndjson").rows
    rows = iter(shown)
    for path in sorted(map(str, [*Path("lake").rglob("*.parquet"), *Path("orc").rglob("*.orc")])):
        if path.endswith(".parquet"):
            with parquet_bloom.open(path) as file:
                for one, row in zip(file.chunks(), rows, strict=False):
                    assert [row["file"], *map(row.get, names)] == [path, *(getattr(one, name) for name in names)]
            continue
        with orc.open(path) as file:
            numbers = {(group.stripe, group.row_group): group.number for group in file.row_groups}
            for one, row in zip(file.filters(), rows, strict=False):
                assert [row["file"], *map(row.get, of_orc)] == [path, *(getattr(one, name) for name in of_orc)]
                assert row["row_group"] == numbers[one.stripe, one.row_group]
                assert (row["stream"], row["num_hash_functions"]) == (one.kind, one.num_hash_functions)
                assert (row["num_bytes"], row["doubt"], row["problem"]) == (one.num_bits // 8, one.fault, one.problem)
                assert row["offset"] is row["num_blocks"] is None
    assert next(rows, None) is None
    assert len(shown) == 10 + 2 * 2 * 4 + 2 * 5


def test_columns_and_row_groups_are_chosen(tmp_path, run, lake):
    path = tmp_path / "a.parquet"
    user = pa.array([{"id": i, "name": str(i)} for i in range(4)])
    pq.write_table(pa.table({"user": user, "user.id": [1, 2, 3, 4], "z": [1, 2, 3, 4]}), path, row_group_size=2)
    parquet_bloom.embed(path, ["user.name", "z"])

    def shown(*options: str) -> list[tuple[int, str]]:
        result = run("show", path, "--format", "ndjson", *options)
        assert (result.code, result.err) == (0, "")
        return [(row["row_group"], row["column"]) for row in result.rows]

    assert shown() == [(0, "user.name"), (0, "z"), (1, "user.name"), (1, "z")]
    assert shown("--column", "z", "--row-group", "1") == [(1, "z")]
    assert shown("--column", "user") == [(0, "user.name"), (1, "user.name")]  # all below it
    assert shown("--column", "z", "--column", "user.name", "--row-group", "0", "--row-group", "1") == shown()
    assert shown("--column", "user.id") == []  # two columns have that dotted path, none has a filter
    chosen = run("show", "orc", "--column", "id", "--row-group", "3", "--format", "ndjson").rows
    assert [(row["column"], row["row_group"], row["stripe"]) for row in chosen] == [("id", 3, 1)] * 3


def test_a_path_of_a_variant_is_chosen(tmp_path, run):
    path = tmp_path / "a.parquet"
    variants = make_variants([{"a": {"b": number}} for number in range(4)], {"a": {"b": pa.int64()}})
    pq.write_table(pa.table({"v": variants, "z": range(4)}), path)
    parquet_bloom.embed(path, ["v:a.b", "z"])
    rows = run("show", path, "--format", "ndjson", "--column", "v:a.b").rows
    assert [row["column"] for row in rows] == ["v.typed_value.a.typed_value.b.typed_value"]
    result = run("show", path, "--column", "v:a.c")
    assert (result.code, result.errors) == (2, ["error: column 'v:a.c': no such column in the file"])
    arrow_orc.write_table(pa.table({"v": pa.array([{"metadata": b"", "value": b""}])}), tmp_path / "a.orc")
    result = run("show", tmp_path / "a.orc", "--column", "v:a.b")
    assert (result.code, result.errors) == (2, ["error: column 'v:a.b': no such column in the file"])


def test_a_choice_that_no_file_knows_is_an_error(lake, run):
    for names, rows in ((["lake", "orc"], 7), (["orc"], 1)):
        result = run("show", *names, "--column", "tag", "--column", "c", "--row-group", "0", "--row-group", "9")
        count = 8 if len(names) == 2 else 3
        assert result.code == 2
        assert result.errors == [
            f"error: column 'c': no such column in any of {count} files",
            f"error: no row group 9 in any of {count} files",
        ]
        assert len(result.out.splitlines()) >= 2, rows
    result = run("show", "lake/by=pyarrow/plain.parquet")
    assert (result.code, result.out, result.err) == (0, "", "no filters in 1 file\n")


def test_a_full_filter_estimates_no_number(tmp_path, run):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(20_000)}), path)
    parquet_bloom.embed(path, {"id": {"ndv": 1}})
    (row,) = run("show", path, "--format", "ndjson").rows
    # Infinitely many, as far as one sees.
    assert (row["num_bytes"], row["fill"], row["ndv_estimate"], row["fpp"]) == (32, 1.0, None, 1.0)
    assert run("show", path).out.splitlines()[-1].split()[-2:] == ["1", "inf"]
    result = run("verify", path, "--json")
    assert result.code == 0
    (row,) = result.document["filters"]
    assert row["ok"]
    assert row["note"].startswith("saturated: ")
    assert "saturated: " in run("verify", path).out


def test_exit_codes_of_verify(lake, run):
    assert run("verify", "lake").code == 0
    assert run("verify", "lake", "broken.parquet").code == 1
    Path("no.parquet").write_bytes(b"nothing")
    assert run("verify", "no.parquet", "lake").code == 2
    assert run("verify", "broken.parquet", "no.parquet").code == 2  # not all that is bad is known
    assert run("verify", "broken.parquet", "--column", "other").code == 0
    assert run("verify", "broken.parquet", "--column", "key").code == 1
    missing = run("verify", "lake", "--column", "nope")
    (line,) = missing.errors
    assert missing.code == 2
    assert line.startswith("error: lake/by=datafusion/part-0.parquet: column 'nope': no such column; there are: ")
    assert line.endswith("(the same in 4 more files)")


def test_files_without_filters_are_counted_and_not_called_good(lake, run):
    for option in ((), ("--data",)):
        result = run("verify", "lake/by=pyarrow/plain.parquet", *option)
        assert (result.code, result.out, result.err) == (0, "", "no filters in 1 file\n")
    unread = "; 1 file without filters; only their structure was checked (--data probes the values)"
    assert unread in run("verify", "lake").err
    assert run("verify", "lake", "--data").err.endswith(", none of them bad; 1 file without filters\n")
    for options, data in (([], False), (["--data"], True)):
        document = run("verify", "lake", *options, "--json").document
        assert (document["data"], document["totals"]["unfiltered"]) == (data, 1)


def test_a_false_negative_is_found_with_data_only(lake, tmp_path, run):
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for start, file in ((1000, path), (3000, other)):
        pq.write_table(pa.table({"id": range(start, start + 1000)}), file, compression="none", use_dictionary=False)
        parquet_bloom.embed(file, ["id"])
    with parquet_bloom.open(path) as one, parquet_bloom.open(other) as two:
        (chunk,), (wrong,) = one.chunks(), two.chunks()
        start, bitset = chunk.offset + chunk.header.header_bytes, wrong.filter.to_bytes()
    data = path.read_bytes()
    path.write_bytes(data[:start] + bitset + data[start + len(bitset) :])
    in_orc = Path("orc/by=pyarrow/part-0.orc")
    with orc.open(in_orc) as file:
        theirs, others = [bytes(one.bitset) for one in file.filters(["id"]) if one.stripe == 1]
    data = in_orc.read_bytes()
    assert data.count(theirs) == 1  # nothing is compressed
    in_orc.write_bytes(data.replace(theirs, others))
    for file, row_group, total in ((path, 0, 1000), (in_orc, 2, 50)):
        assert run("verify", file, "--column", "id").code == 0
        result = run("verify", file, "--column", "id", "--data", "--format", "ndjson")
        assert (result.code, result.errors) == (1, [])
        (row,) = [row for row in result.rows if not row["ok"]]
        assert (row["file"], row["row_group"], row["num_values"]) == (str(file), row_group, total)
        assert 0.8 * total < row["num_missing"] <= total
        assert row["problem"] == f"the filter denies {row['num_missing']:,} of the column's {total:,} values"


# ------------------------------------------------------------------------------------------------------------- ORC


def test_files_are_what_they_hold(lake, run):
    shutil.move("orc/by=spark/part-0.orc", "orc/by=spark/a.parquet")
    shutil.copy("lake/by=spark/part-0.parquet", "orc/by=spark/b.orc")
    shown = run("show", "orc/by=spark", "--column", "id", "--format", "ndjson").rows
    kinds = [(Path(row["file"]).name, row["stripe"] is None) for row in shown]
    assert kinds == [("a.parquet", False)] * 5 + [("b.orc", True)] * 2
    verified = run("verify", "orc/by=spark", "--data")
    assert (verified.code, verified.errors) == (0, [])


def test_orc_files_that_are_not_read(lake, run):
    """One that is cut off, and one whose footer says, in a field that nobody may pass over, that it is encrypted."""
    data = Path("orc/by=pyarrow/part-0.orc").read_bytes()
    Path("cut.orc").write_bytes(data[:-20])
    length = data[-1]
    postscript, before = data[-1 - length : -1], data[: -1 - length]
    assert postscript[0] == 0x08  # field 1, the footer's length, in two bytes
    encryption = bytes([10 << 3 | 2, 0])  # an empty message
    footer_length = (postscript[1] & 0x7F | postscript[2] << 7) + len(encryption)
    postscript = bytes([0x08, footer_length & 0x7F | 0x80, footer_length >> 7]) + postscript[3:]
    Path("encrypted.orc").write_bytes(before + encryption + postscript + bytes([length]))
    Path("end.orc").write_bytes(data[len(data) // 2 :])  # its beginning is not read: places in it are wrong
    for command in (["show"], ["verify"], ["advise"], ["prune", "--where", "id = 1"], ["find", "--where", "id = 1"]):
        for name, problem in (
            ("cut.orc", "not an ORC file, or one cut off: it begins with ORC, but does not end as one"),
            ("encrypted.orc", "columns of the file are encrypted, which is not read"),
        ):
            result = run(command[0], name, *command[1:])
            assert (result.code, result.errors) == (2, [f"error: {name}: {problem}"]), command
        result = run(command[0], "end.orc", *command[1:])
        assert (result.code, len(result.errors)) == (2, 1)


@pytest.mark.parametrize("how", ["--in-place", "--dry-run"])
def test_nothing_is_embedded_into_orc_and_nothing_dropped(how, lake, run, contents):
    before = contents("orc")
    for command, problem in (
        (["embed", "--column", "id"], "an ORC file: only its writer can make its filters; `advise` reports how"),
        (
            ["drop"],
            "an ORC file: its filters are in its stripes, and go only when its rows are written anew without th",
        ),
    ):
        result = run(*command, "orc", "lake/by=pyarrow", how)
        assert result.code == 2
        starts = [f"error: orc/{name}: {problem}" for name in before]
        assert [line[: len(start)] for line, start in zip(result.errors, starts, strict=True)] == starts
        assert contents("orc") == before
        assert "lake/by=pyarrow/" in result.out  # the others are done


def test_a_broken_filter_of_orc_is_a_row(lake, run):
    """As of Parquet files: the row says what is broken, the others are shown, and the query reads more."""
    path = Path("orc/by=pyarrow/part-0.orc")
    with orc.open(path) as file:
        bitset = bytes(next(file.filters(["id"])).bitset)
    data = bytearray(path.read_bytes())
    data[data.index(bitset) - 2] ^= 0x08  # the tag of the field before it: its length
    path.write_bytes(data)
    result = run("show", path, "--column", "id", "--format", "ndjson")
    assert (result.code, result.errors) == (0, [])
    problems = [row["problem"] is not None for row in result.rows]
    assert problems in ([True, False, False, False], [True, True, False, False])
    assert "broken" in run("show", path).err
    assert run("verify", path).code == 1
    assert run("find", path, "--where", "id = 4200").code == 0

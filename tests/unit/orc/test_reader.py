"""Opening an ORC file: its columns and row groups, and how little of it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as pa_orc
import pyarrow.parquet as pq
import pytest

import parquet_bloom.orc as orc
from parquet_bloom.errors import NotOrcError, StorageError, UnknownColumnError
from parquet_bloom.storage import open_source

EVERY_TYPE = (
    "struct<a:boolean,b:tinyint,c:smallint,d:int,e:bigint,f:float,g:double,h:string,i:binary,j:timestamp,"
    "k:decimal(10,2),l:date,m:varchar(5),n:char(5),o:timestamp with local time zone,p:array<int>,"
    "q:map<string,struct<x:int,y:array<date>>>,r:struct<s:struct<t:bigint>>,u:uniontype<int,string>>"
)


def test_columns_of_every_type(tmp_path: Path) -> None:
    pyorc = pytest.importorskip("pyorc")
    path = tmp_path / "a.orc"
    with path.open("wb") as stream, pyorc.Writer(stream, EVERY_TYPE):
        pass
    with orc.open(path) as file:
        shown = {leaf.name: (leaf.kind, str(leaf.column_type), leaf.repeated) for leaf in file.leaves}
        assert [leaf.index for leaf in file.leaves] == list(range(len(file.leaves)))
        assert len({leaf.column_id for leaf in file.leaves}) == len(file.leaves)
        assert file.columns == list(shown)
    assert shown == {
        "a": ("BOOLEAN", "BOOLEAN boolean", False),
        "b": ("BYTE", "INT32 tinyint", False),
        "c": ("SHORT", "INT32 smallint", False),
        "d": ("INT", "INT32 int", False),
        "e": ("LONG", "INT64 bigint", False),
        "f": ("FLOAT", "FLOAT float", False),
        "g": ("DOUBLE", "DOUBLE double", False),
        "h": ("STRING", "BYTE_ARRAY string", False),
        "i": ("BINARY", "BYTE_ARRAY binary", False),
        "j": ("TIMESTAMP", "INT96 timestamp", False),
        "k": ("DECIMAL", "BYTE_ARRAY decimal(10,2)", False),
        "l": ("DATE", "INT32 date", False),
        "m": ("VARCHAR", "BYTE_ARRAY varchar(5)", False),
        "n": ("CHAR", "BYTE_ARRAY char(5)", False),
        "o": ("TIMESTAMP_INSTANT", "INT96 timestamp with local time zone", False),
        "p.item": ("INT", "INT32 int", True),
        "q.key": ("STRING", "BYTE_ARRAY string", True),
        "q.value.x": ("INT", "INT32 int", True),
        "q.value.y.item": ("DATE", "INT32 date", True),
        "r.s.t": ("LONG", "INT64 bigint", False),
        "u.0": ("INT", "INT32 int", True),
        "u.1": ("STRING", "BYTE_ARRAY string", True),
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("orc") / "a.orc"
    table = pa.table(
        {"id": range(30_000), "name": [f"n{i}" for i in range(30_000)], "x": [i / 7 for i in range(30_000)]}
    )
    pa_orc.write_table(
        table,
        target,
        row_index_stride=1_000,
        bloom_filter_columns=[1, 2],
        stripe_size=1 << 16,
        batch_size=1_000,
        compression="zstd",
    )
    return target


def test_claims_of_a_file(path: Path) -> None:
    with orc.open(path) as file:
        assert (file.writer, file.compression, file.row_index_stride, file.num_rows) == ("c++", "zstd", 1_000, 30_000)
        assert f"ORC C++ {file.software_version}" == pa_orc.ORCFile(path).software_version
        assert (file.writer_version, file.calendar) == (6, None)
        assert len(file.stripes) == pa_orc.ORCFile(path).nstripes >= 2
        assert [stripe.first_row for stripe in file.stripes][:2] == [0, file.stripes[0].num_rows]
        assert repr(file).startswith("<OrcFile ")
        assert str(path) in repr(file)
        assert file.num_filters() == 2 * len(file.row_groups)
        assert file.num_filters(["name"]) == len(file.row_groups)
        assert len(list(file.filters(["name"]))) == len(file.row_groups)
        assert {one.column for one in file.filters(["name", "x"])} == {"name"}


def test_names(path: Path, tmp_path: Path) -> None:
    with orc.open(path) as file:
        assert file.leaf("id").column_id == 1
        with pytest.raises(UnknownColumnError, match=r"column 'no': no such column; there are: id, name, x"):
            file.leaf("no")
        with pytest.raises(UnknownColumnError):
            list(file.filters(["no"]))
    table = pa.table({"one": [{"a": 1}], "two": [{"a": 1, "b": 2}], "list": [[1]], "ab": [1]})
    pa_orc.write_table(table, tmp_path / "b.orc")
    with orc.open(tmp_path / "b.orc") as file:
        assert file.leaf("one").name == "one.a"
        assert file.leaf("list").name == "list.item"
        with pytest.raises(UnknownColumnError, match=r"several columns match the name: two\.a, two\.b"):
            file.leaf("two")


def test_requests(path: Path) -> None:
    """The end is read once; the indexes of many columns and stripes take the fewest reads; nothing is read twice."""
    with orc.open(path) as file:
        source = file.source
        assert source.requests == 1
        leaves, stripes = [file.leaf("id"), file.leaf("x")], range(len(file.stripes))
        for leaf in leaves:
            file.stripe_statistics(leaf)
        first = source.requests
        file.row_group_evidence(leaves, stripes)
        read = source.bytes_read
        assert source.requests - first <= 3 * len(stripes)
        before = source.requests
        file.row_group_evidence(leaves, stripes)
        assert source.requests == before
        file.filters_at([(leaves[0], stripe) for stripe in stripes])
        assert source.requests - before <= len(stripes)
        assert read < source.size


def test_a_file_that_is_not_there_or_something_else(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        orc.open(tmp_path / "none.orc")
    other = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1]}), other)
    with pytest.raises(NotOrcError, match=r"a\.parquet: not an ORC file"):
        orc.open(other)
    with open_source(other) as source:
        assert not orc.is_orc(source)


def test_is_orc_reads_little(path: Path) -> None:
    with open_source(path) as source:
        assert orc.is_orc(source)
        assert source.requests == 1
        assert source.bytes_read <= 256


def test_verify(path: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = orc.verify(path, data=True, columns=["name"], progress=lambda done, total: seen.append((done, total)))
    assert report.ok
    count = len(report.chunks)
    assert seen == [(i + 1, count) for i in range(count)]
    assert [chunk.row_group for chunk in report.chunks] == list(range(count))
    assert sum(chunk.num_values or 0 for chunk in report.chunks) == 30_000
    assert str(report) == f"{path}: {count} filters, none of them bad"


def test_verify_finds_values_that_are_denied(path: Path, tmp_path: Path) -> None:
    """A trusted filter with a bit less is bad."""
    plain = tmp_path / "a.orc"
    pa_orc.write_table(
        pa.table({"id": range(500)}), plain, bloom_filter_columns=[1], compression="uncompressed", bloom_filter_fpp=0.1
    )
    with orc.open(plain) as file:
        (bloom_filter,) = file.filters()
    data = plain.read_bytes()
    at = data.index(bytes(bloom_filter.bitset))
    position = next(i for i, byte in enumerate(bloom_filter.bitset) if byte)
    plain.write_bytes(data[: at + position] + b"\0" + data[at + position + 1 :])
    (verdict,) = orc.verify(plain, data=True).chunks
    assert verdict.num_missing > 0
    assert verdict.problem == f"the filter denies {verdict.num_missing} of the column's 500 values"
    assert orc.verify(plain).ok


@pytest.mark.parametrize("name", ["bad_bloom_filter_1.6.0.orc", "bad_bloom_filter_1.6.11.orc", "over1k_bloom.orc"])
def test_files_of_others(name: str, corpus: Path) -> None:
    path = corpus / name
    table = pa_orc.read_table(path)
    with orc.open(path) as file:
        assert file.columns == table.schema.names
        assert file.num_rows == table.num_rows
        for one in file.filters():
            assert not one.trusted
            assert one.check(table[one.column]).all()
        evidence: dict[Any, Any] = file.row_group_evidence(file.leaves, range(len(file.stripes)))
        for group in file.row_groups:
            rows = table.slice(group.first_row, group.num_rows)
            for leaf in file.leaves:
                one = evidence[group.stripe, leaf.column_id][group.row_group]
                assert one.has_values is (rows[leaf.name].null_count < len(rows))
                if leaf.column_type.kind.name in ("INTEGER", "FLOAT") and one.low is not None:
                    values = [value for value in rows[leaf.name].to_pylist() if value is not None]
                    assert (one.low, one.high) == (min(values), max(values))

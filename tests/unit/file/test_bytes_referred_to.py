"""Values of the logical type FILE, or of a later one, may refer to bytes of their file, none of which ever moves."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.oracle.oracle import STRUCT, Struct
from support.writers import surgery

import parquet_bloom

BLOB = oracle.write_struct(oracle.filter_header(32)) + bytes(range(32))
"""What is referred to: bytes that could be a filter of nothing, as changes of files leave them."""

FILE, GEOGRAPHY = 19, 18


def write(path, member, is_group=True):
    """Write a file with bytes between its pages and its footer that its values refer to."""
    start = 0
    for _ in range(2):
        refers = pa.array(
            [{"offset": start, "size": len(BLOB)}] * 2, pa.struct({"offset": pa.int64(), "size": pa.int64()})
        )
        table = pa.table({"doc": refers, "k": [1, 2], "n": [3, 4]})
        pq.write_table(
            table, path, use_dictionary=False, compression="none", write_statistics=False, store_schema=False
        )
        start = oracle.footer_start(path.read_bytes())
    surgery.with_bytes_before_the_footer(path, BLOB)
    annotation = Struct({member: (STRUCT, Struct())})

    def change(footer):
        surgery.schema_element(footer, "doc" if is_group else "n").set(10, STRUCT, annotation)

    return surgery.rewrite_footer(path, change)


def resolve(path):
    data = path.read_bytes()
    places = parquet_bloom.read_table(path, "k >= 0", ["doc"])["doc"].to_pylist()
    return {data[place["offset"] : place["offset"] + place["size"]] for place in places}


@pytest.mark.parametrize(("member", "is_group"), [(FILE, True), (42, True), (42, False)])
@pytest.mark.parametrize("keep_footer", [False, True])
def test_nothing_moves(tmp_path, member, is_group, keep_footer):
    path = write(tmp_path / "a.parquet", member, is_group)
    body = path.read_bytes()[: oracle.footer_start(path.read_bytes())]
    rows = parquet_bloom.read_table(path, "k >= 0")
    report = parquet_bloom.drop(path)
    assert not report.changed
    for change, dead_bytes in (
        (lambda: parquet_bloom.embed(path, ["k", "n"], keep_footer=keep_footer), 0),
        (lambda: parquet_bloom.embed(path, ["k"], replace=True, keep_footer=keep_footer), 1),
        (lambda: parquet_bloom.drop(path, ["k"]), 1),
        (lambda: parquet_bloom.embed(path, ["k"]), 0),
        (lambda: parquet_bloom.drop(path), 2),
    ):
        before = path.read_bytes()
        report = change()
        assert report.changed
        after = path.read_bytes()
        assert after.startswith(before[: oracle.footer_start(before)])
        assert after.startswith(body)
        assert resolve(path) == {BLOB}
        assert parquet_bloom.read_table(path, "k >= 0").equals(rows)
        assert parquet_bloom.verify(path).ok
        if not keep_footer:
            assert report.dead_bytes == dead_bytes * len(BLOB)
    assert not any(dropped.freed for dropped in report.filters)


def test_known_types_refer_to_nothing(tmp_path):
    """Then such bytes are what changes of the file have left."""
    path = write(tmp_path / "a.parquet", GEOGRAPHY)
    assert parquet_bloom.drop(path).bytes_freed == len(BLOB)

"""Dictionaries rule out only row groups without a matching row, and call certain only those all of whose rows match."""

import datetime as dt
import decimal
import random
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.scale import scaled

import parquet_bloom
from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate import tree
from parquet_bloom.predicate.row_filter import row_mask

GROUPS, GROUP_ROWS = 4, 60

TEXTS = ["", "a", "ab", "abc", "b", "B", "ä", "%", "_", "a%b", "x" * 70 + "1", "x" * 70 + "2"]
POOLS = {
    "i8": (pa.int8(), [-128, -1, 0, 1, 5, 127]),
    "i32": (pa.int32(), [-(2**31), -7, 0, 7, 8, 2**31 - 1]),
    "i64": (pa.int64(), [-(2**63), -1, 0, 1, 2, 2**63 - 1]),
    "u32": (pa.uint32(), [0, 1, 2**31, 2**32 - 1]),
    "u64": (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    "f32": (pa.float32(), [-0.0, 0.0, 1.5, -2.25, float("nan"), float("inf"), -float("inf")]),
    "f64": (pa.float64(), [-0.0, 0.0, 0.1, -3.5, float("nan"), float("inf")]),
    "dec": (pa.decimal128(9, 2), [decimal.Decimal(text) for text in ("-1.50", "0.00", "0.01", "99.99")]),
    "wide": (pa.decimal128(30, 4), [decimal.Decimal(text) for text in ("-1.5000", "0.0000", "1e20")]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    "at": (pa.timestamp("us"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 1)]),
    "utc": (
        pa.timestamp("ms", "UTC"),
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2030, 1, 1, tzinfo=dt.UTC)],
    ),
    "time": (pa.time64("us"), [dt.time(0), dt.time(12, 30), dt.time(23, 59, 59, 999999)]),
    "text": (pa.string(), TEXTS),
    "raw": (pa.binary(), [text.encode() for text in TEXTS] + [b"\xff", b"\x00"]),
    "fixed": (pa.binary(3), [b"abc", b"abd", b"\x00\x00\x00", b"\xff\xff\xff"]),
    "id": (pa.uuid(), [uuid.UUID(int=number).bytes for number in (0, 1, 2**127)]),
}
PATTERNS = ["a%", "%b", "%a%", "_", "a_c", "%\\%%", "%", "x%1", "", "%xx%"]
EXPRESSIONS = ["^a", "b$", "[ab]{2}", "x+1", "."]


def draw_table(random_source: random.Random) -> pa.Table:
    """Draw columns of few values each, another choice of them in each row group, with nulls in some."""
    columns = {}
    for name, (arrow_type, pool) in POOLS.items():
        values = []
        for _ in range(GROUPS):
            some = random_source.sample(pool, random_source.randint(1, min(3, len(pool))))
            nulls = [None] * random_source.choice([0, 0, 1, 3])
            values += random_source.choices(nulls + some if random_source.random() < 0.9 else [None], k=GROUP_ROWS)
        columns[name] = pa.array(values, arrow_type)
    columns["s"] = pa.StructArray.from_arrays([columns["i32"], columns["text"]], ["i", "t"])
    texts = columns["text"].to_pylist()
    lists = [random_source.choice([None, [], [text], [text, text], [text, None]]) for text in texts]
    columns["list"] = pa.array(lists, pa.list_(pa.string()))
    return pa.table(columns)


def draw_leaf(random_source: random.Random) -> tree.Node:
    name = random_source.choice([*POOLS, *POOLS, "s.i", "s.t", "list"])
    if name == "list":
        kind = random_source.choice([tree.Contains, tree.NotContains])
        return kind(name, random_source.choice([*TEXTS, "absent"]))
    pool = POOLS[{"s.i": "i32", "s.t": "text"}.get(name, name)][1]
    literals = [uuid.UUID(bytes=value) for value in pool] if name == "id" else list(pool)
    if name in ("i32", "i64", "s.i"):
        literals += [3, 6]
    choice = random_source.randrange(7)
    if name in ("text", "s.t") and choice < 4:
        function = random_source.choice(["", "", "lower", "upper"])
        if choice == 0:
            kind = random_source.choice([tree.Like, tree.NotLike])
            return kind(name, random_source.choice(PATTERNS), function)
        if choice == 1:
            kind = random_source.choice([tree.Matches, tree.NotMatches])
            return kind(name, random_source.choice(EXPRESSIONS), function)
        if choice == 2:
            values = tuple(random_source.sample(TEXTS, 2))
            return random_source.choice([tree.CallIn, tree.CallNotIn])(name, function or "lower", values)
    if choice == 0:
        return random_source.choice([tree.IsNull, tree.IsNotNull])(name)
    if choice < 3:
        return random_source.choice([tree.Equal, tree.NotEqual])(name, random_source.choice([*literals, None]))
    if choice < 5:
        values = tuple(random_source.choices(literals, k=random_source.randint(0, 3)))
        return random_source.choice([tree.In, tree.NotIn])(name, values)
    return tree.Compare(name, random_source.choice([*tree.OPERATORS]), random_source.choice(literals))


def draw_node(random_source: random.Random, depth: int = 2) -> tree.Node:
    if depth == 0 or random_source.random() < 0.4:
        return draw_leaf(random_source)
    children = tuple(draw_node(random_source, depth - 1) for _ in range(random_source.randint(2, 3)))
    return random_source.choice([tree.And, tree.Or])(children)


def write_by_arrow(table, path, random_source):
    """Write a file; return whether no dictionary was given up."""
    limit = random_source.choice([1 << 20, 1 << 20, 16])
    pq.write_table(
        table,
        path,
        row_group_size=GROUP_ROWS,
        data_page_version=random_source.choice(["1.0", "2.0"]),
        compression=random_source.choice(["none", "snappy", "zstd", "gzip", "lz4"]),
        # A small dictionary is given up in the middle of a column chunk.
        dictionary_pagesize_limit=limit,
        write_batch_size=random_source.choice([7, 1024]),
        data_page_size=random_source.choice([64, 1 << 20]),
        write_statistics=random_source.random() < 0.5,
        store_schema=random_source.random() < 0.5,
        use_deprecated_int96_timestamps=random_source.random() < 0.3,
    )
    return limit > 16


@pytest.mark.default
@pytest.mark.parametrize("seed", range(scaled(6)))
def test_row_groups_are_ruled_out_and_certain_as_their_rows_say(tmp_path, seed):
    random_source = random.Random(seed)
    path = tmp_path / "a.parquet"
    is_whole = write_by_arrow(draw_table(random_source), path, random_source)
    file = pq.ParquetFile(path)
    groups = [file.read_row_group(number) for number in range(file.num_row_groups)]
    ruled_out = certain = 0
    for _ in range(60):
        node = draw_node(random_source)
        text = tree.to_text(node)
        try:
            masks = [row_mask(group, node).to_pylist() for group in groups]
        except PredicateError:
            continue
        plan = parquet_bloom.prune(path, text)
        for one, mask in zip(plan.files[0].row_groups, masks, strict=True):
            assert one.read or True not in mask, (text, one)
            assert not one.certain or set(mask) == {True}, (text, one)
            ruled_out += "dictionary" in one.by
            certain += one.certain
        expected = sum(mask.count(True) for mask in masks)
        assert parquet_bloom.read_table(path, text).num_rows == expected, text
    assert not is_whole or ruled_out + certain

"""Footers spliced: other places of filters, and every other byte the old one.

Footers are made up field by field, with fields that no specification knows at every level. What a splice must give is
said a second time here, in a few slow lines; and the oracle reads the result.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.oracle.oracle import BINARY, BOOL, DOUBLE, I8, I16, I32, I64, LIST, MAP, SET, STRUCT, Many, Pairs, Struct

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata.footer import Footer
from parquet_bloom.metadata.footer_rewrite import splice_filter_locations

FilterLocation = tuple[int, int] | None


class Field(NamedTuple):
    """A field as encoded on the wire; `long_form`: its number is spelled out, not a step from the one before."""

    number: int
    code: int
    raw: bytes
    long_form: bool = False


def encode(fields: list[Field]) -> bytes:
    """A struct; a field number that is not 1 to 15 ahead is written in long form."""
    out, before = bytearray(), 0
    for field in fields:
        step = field.number - before
        if 1 <= step <= 15 and not field.long_form:
            out.append(step << 4 | field.code)
        else:
            out.append(field.code)
            out += oracle.varint(oracle.zigzag(field.number))
        out += field.raw
        before = field.number
    return bytes(out) + b"\x00"


def number(value: int) -> bytes:
    return oracle.varint(oracle.zigzag(value))


def spliced(fields: list[Field], location: FilterLocation) -> list[Field]:
    """Return the expected metadata of a column chunk: new fields 14 and 15 ahead of the first of a higher number."""
    before = [0, *(field.number for field in fields)]
    # What is spelled out stays so, even where a step would do now.
    fields = [
        field._replace(long_form=field.long_form or not 1 <= field.number - last <= 15)
        for field, last in zip(fields, before, strict=False)
    ]
    retained = [field for field in fields if field.number not in (14, 15)]
    if location is None:
        return retained
    here = next((i for i, field in enumerate(retained) if field.number > 15), len(retained))
    return [
        *retained[:here],
        Field(14, 6, number(location[0])),
        Field(15, 5, number(location[1])),
        *retained[here:],
    ]


# ------------------------------------------------------------------------------------------------------------
# Made-up footers
# ------------------------------------------------------------------------------------------------------------

SIMPLE: dict[str, Callable[[random.Random], Any]] = {
    BOOL: lambda rng: rng.random() < 0.5,
    I8: lambda rng: rng.randint(-128, 127),
    I16: lambda rng: rng.choice((-(2**15), 0, 77, 2**15 - 1)),
    I32: lambda rng: rng.choice((-(2**31), -1, 5000, 2**31 - 1)),
    I64: lambda rng: rng.choice((-(2**63), 1, 2**40, 2**63 - 1)),
    DOUBLE: lambda rng: rng.random(),
    BINARY: lambda rng: rng.randbytes(rng.choice((0, 3, 20, 150))),
    oracle.UUID: lambda rng: rng.randbytes(16),
}
NUMBERS = (-32768, -20, -3, -1, 0, *range(20, 40), 60, 100, 1000, 32767)
SIZES = (0, 1, 2, 14, 15, 16, 130)


def value_of(rng: random.Random, depth: int = 0) -> tuple[str, Any]:
    """A value of any type, and the type; a list's elements are all of one."""
    kind = rng.choice([*SIMPLE, *([LIST, SET, MAP, STRUCT] if depth < 3 else [])])
    if kind in SIMPLE:
        return kind, SIMPLE[kind](rng)
    if kind == STRUCT:
        numbers = rng.sample(NUMBERS, rng.randrange(4))
        return kind, Struct({number: value_of(rng, depth + 1) for number in numbers})
    (first, one), (second, other) = value_of(rng, depth + 1), value_of(rng, depth + 1)
    size = rng.choice(SIZES if depth == 0 else SIZES[:-3])
    if kind == MAP:
        return kind, Pairs(first, second, [(one, other)] * size)
    return kind, Many(first, [one] * size, size < 15 and rng.random() < 0.3)


def field_of(rng: random.Random, field_id: int) -> Field:
    type_name, value = value_of(rng)
    long_form = rng.random() < 0.3
    if type_name == BOOL:
        return Field(field_id, 1 if value else 2, b"", long_form)
    return Field(field_id, oracle.CODES[type_name], oracle._write_value(type_name, value), long_form)


def unknown(rng: random.Random, numbers: Sequence[int] = NUMBERS) -> list[Field]:
    return [field_of(rng, number) for number in rng.sample(numbers, rng.choice((0, 0, 1, 2, 4)))]


def around(rng: random.Random) -> tuple[list[Field], list[Field]]:
    """Unknown fields to insert before and after others, with different numbers."""
    return unknown(rng, NUMBERS[::2]), unknown(rng, NUMBERS[1::2])


def column_metadata(rng: random.Random) -> list[Field]:
    """The known fields, perhaps some; fields 14 and 15 right, odd, doubled or not at all; unknown ones among them."""
    fields = [
        Field(1, 5, number(rng.randint(0, 7))),
        Field(2, 9, b"\x25\x00\x06"),
        Field(3, 9, b"\x18\x01a"),
        Field(4, 5, number(1)),
        *(Field(n, 6, number(rng.randint(0, 2**40)), rng.random() < 0.2) for n in (5, 6, 7, 9)),
        Field(11, 6, number(4)),
        Field(12, 12, b"\x36\x00\x00"),
    ]
    if rng.random() < 0.5:
        fields = [field for field in fields if rng.random() < 0.7]
    offset, length = Field(14, 6, number(rng.randint(0, 2**40))), Field(15, 5, number(1000))
    odd = [field_of(rng, rng.choice((14, 15))) for _ in range(rng.randrange(4))]
    positions = rng.choice([[], [offset, length], [offset, length], [offset], [length, offset], odd])
    if positions != odd and rng.random() < 0.5:
        fields += positions
        positions = []
    for field in unknown(rng) + positions:
        fields.insert(rng.randint(0, len(fields)), field)
    if rng.random() < 0.2:
        rng.shuffle(fields)
    return fields


class GeneratedFooter(NamedTuple):
    """A footer in pieces: its bytes are put together anew for other column metadata."""

    chunks: list[list[tuple[list[Field], list[Field], list[Field]]]]  # before the metadata, the metadata, and after it
    groups: list[tuple[list[Field], list[Field]]]  # before and after the list of chunks
    around: tuple[list[Field], list[Field]]  # before and after the list of row groups

    def metadata(self) -> dict[tuple[int, int], list[Field]]:
        return {(g, c): chunk[1] for g, group in enumerate(self.chunks) for c, chunk in enumerate(group)}

    def encode(self, metadata: dict[tuple[int, int], list[Field]]) -> bytes:
        groups = []
        for g, (before, after) in enumerate(self.groups):
            chunks = [
                encode([*first, Field(3, 12, encode(metadata[g, c])), *last])
                for c, (first, _, last) in enumerate(self.chunks[g])
            ]
            groups.append(encode([*before, Field(1, 9, structs_of(chunks)), *after]))
        before, after = self.around
        return encode([*before, Field(4, 9, structs_of(groups)), *after])


def structs_of(items: list[bytes]) -> bytes:
    head = bytes([len(items) << 4 | 12]) if len(items) < 15 else b"\xfc" + oracle.varint(len(items))
    return head + b"".join(items)


def generate_footer(rng: random.Random) -> GeneratedFooter:
    num_groups, num_columns = rng.choice([(0, 1), (1, 0), (1, 1), (2, 2), (1, 3), (3, 1), (1, 16), (15, 1)])
    schema = [Field(1, 5, number(2)), Field(2, 9, b"\x0c"), Field(3, 6, number(9))]
    groups = []
    chunks: list[list[tuple[list[Field], list[Field], list[Field]]]] = []
    for _ in range(num_groups):
        before, after = around(rng)
        groups.append((before, [Field(3, 6, number(5)), *after]))
        chunks.append([])
        for _ in range(num_columns):
            before, after = around(rng)
            chunks[-1].append(([*before, Field(2, 6, number(4))], column_metadata(rng), after))
    before, after = around(rng)
    return GeneratedFooter(chunks, groups, ([*schema, *before], [Field(7, 9, b"\x0c"), *after]))


def choose_locations(rng: random.Random, metadata: Iterable[tuple[int, int]]) -> dict[tuple[int, int], FilterLocation]:
    return {
        key: rng.choice([None, (rng.randint(0, 2**62), rng.randint(0, 2**31 - 1))])
        for key in metadata
        if rng.random() < 0.6
    }


@pytest.mark.parametrize("seed", range(10))
def test_only_the_places_change(seed):
    for part in range(60):
        rng = random.Random(f"{seed} {part}")
        generated = generate_footer(rng)
        metadata = generated.metadata()
        old = generated.encode(metadata)
        queried = choose_locations(rng, metadata)
        new = splice_filter_locations(Footer(old, 1000), queried)
        for key, location in queried.items():
            metadata[key] = spliced(metadata[key], location)
        assert new == generated.encode(metadata), f"{seed} {part}"
        again = Footer(new, 1000)
        for (row_group, column), location in queried.items():
            record = again.chunks[int(again.row_groups["first_chunk"][row_group]) + column]
            assert (record["filter_offset"], record["filter_length"]) == (location or (-1, -1))
            assert record["filter_fields"] == (2 if location else 0)
        assert splice_filter_locations(again, queried) == new


@pytest.mark.parametrize("seed", range(5))
def test_the_oracle_reads_the_same(seed):
    """Decoded, old and new are equal but for fields 14 and 15 of the requested chunks."""
    for part in range(40):
        rng = random.Random(f"{seed} {part} oracle")
        generated = generate_footer(rng)
        metadata = {key: once(fields) for key, fields in generated.metadata().items()}
        old = generated.encode(metadata)
        queried = choose_locations(rng, metadata)
        new = splice_filter_locations(Footer(old, 1000), queried)
        before, end = oracle.read_struct(old)
        after, new_end = oracle.read_struct(new)
        assert (end, new_end) == (len(old), len(new))
        for (row_group, column), location in queried.items():
            theirs, ours = (oracle.column_metadata(footer, row_group, column) for footer in (before, after))
            results = {n: ours.pop(n, None) for n in (14, 15)}
            assert results == {14: location and (I64, location[0]), 15: location and (I32, location[1])}, (
                f"{seed} {part}"
            )
            for n in (14, 15):
                theirs.pop(n, None)
        assert in_order(before) == in_order(after), f"{seed} {part}"


def once(fields: list[Field]) -> list[Field]:
    """Each number once, as the oracle wants it."""
    return list({field.number: field for field in fields}.values())


def in_order(value: Any) -> Any:
    """A struct as nested lists, which differ by the order of fields too."""
    if isinstance(value, Struct):
        return [(number, kind, in_order(inner)) for number, (kind, inner) in value.items()]
    if isinstance(value, Many):
        return [value.type, value.long_form, *map(in_order, value.items)]
    if isinstance(value, Pairs):
        return [(in_order(key), in_order(inner)) for key, inner in value.items]
    return value


# ------------------------------------------------------------------------------------------------------------
# Real footers; `tests/fuzz/test_thrift.py` has what chance makes of them
# ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """A small footer with all that pyarrow writes: page indexes, filters, nesting, statistics, metadata of its own."""
    path = tmp_path_factory.mktemp("real") / "real.parquet"
    table = pa.table(
        {
            "i": pa.array([1, None], pa.int32()),
            "s": ["a", "b"],
            "l": [[{"x": 1.5}], []],
            "d": pa.array([1, 2], pa.decimal128(20, 2)),
            "t": pa.array([1, 2], pa.timestamp("us", "UTC")),
        }
    )
    options = {"i": {"ndv": 2}, "s": {"ndv": 2}}
    pq.write_table(table, path, row_group_size=1, write_page_index=True, bloom_filter_options=options)
    data = path.read_bytes()
    start = oracle.footer_start(data)
    return data[start:-8], start


def test_the_real_footer_is_fine(real):
    data, start = real
    footer = Footer(data, start)
    assert [leaf.name for leaf in footer.leaves] == ["i", "s", "l.list.element.x", "d", "t"]
    assert splice_filter_locations(footer, {}) == data
    retained = {
        (int(c["row_group"]), int(c["column"])): (int(c["filter_offset"]), int(c["filter_length"]))
        for c in footer.chunks
        if c["filter_offset"] >= 0
    }
    assert len(retained) == 4
    assert splice_filter_locations(footer, retained) == data
    taken_out = splice_filter_locations(footer, dict.fromkeys(retained))
    assert len(taken_out) < len(data)
    assert splice_filter_locations(Footer(taken_out, start), retained) == data


def test_every_truncation_is_noticed(real):
    data, start = real
    for length in range(len(data)):
        with pytest.raises(MalformedFooterError):
            Footer(data[:length], start)


def test_deep_schemas_are_refused():
    """A chain of groups, each inside the one before: names a level would take memory that grows with the square."""
    group = oracle.write_struct(Struct({3: (I32, 0), 4: (BINARY, b"g"), 5: (I32, 1)}))
    leaf = oracle.write_struct(Struct({1: (I32, 1), 3: (I32, 0), 4: (BINARY, b"x")}))
    for depth, good in ((100, True), (100_000, False)):
        schema = structs_of([*[group] * depth, leaf])
        footer = Footer(encode([Field(2, 9, schema), Field(3, 6, number(0)), Field(4, 9, b"\x0c")]), 4)
        if good:
            assert footer.leaves[0].name == ".".join(["g"] * (depth - 1) + ["x"])
        else:
            with pytest.raises(MalformedFooterError, match="deep"):
                _ = footer.leaves

"""Rows that are no Variants end in an error that names them: no crash, no hang, no memory beyond their size."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from support.random_cases.random_documents import draw_document
from support.scale import scaled
from support.writers.variant_columns import Primitive, encode, make_column

from parquet_bloom.core.decode.variant_decode import DAMAGED, TYPES, VariantReader
from parquet_bloom.errors import MalformedVariantError, VariantCastError
from parquet_bloom.variant.variant_layout import open_variant
from parquet_bloom.variant.variant_path import VariantPath, parse_path
from parquet_bloom.variant.variant_text import to_json
from parquet_bloom.variant.variant_values import extract

NO_NAMES, NAMES = b"\1\0\0", b"\1\3\0\1\2\3abc"


def nested(depth: int) -> bytes:
    """Arrays of one element, within each other."""
    value = b"\0"
    for _ in range(depth):
        value = b"\x0f\1" + bytes(4) + len(value).to_bytes(4, "little") + value
    return value


ROWS: dict[str, tuple[bytes, bytes, str]] = {
    "no metadata": (b"", b"\0", "not a dictionary of version 1"),
    "version 2": (b"\2\0\0", b"\0", "not a dictionary of version 1"),
    "metadata cut": (b"\1\3\0", b"\0", "not a dictionary of version 1"),
    "huge dictionary": (b"\xc1\xff\xff\xff\xff" + bytes(20), b"\0", "not a dictionary of version 1"),
    "names backwards": (b"\1\2\0\2\1ab", b"\2\1\1\0\1\0", "not a dictionary of version 1"),
    "names behind the end": (b"\1\1\0\x09ab", b"\2\1\0\0\1\0", "not a dictionary of version 1"),
    "no value": (NO_NAMES, b"", "ends behind"),
    "number cut": (NO_NAMES, b"\x18\0\0", "ends behind"),
    "string cut": (NO_NAMES, b"\x0dab", "ends behind"),
    "huge string": (NO_NAMES, b"\x40\xff\xff\xff\xffab", "ends behind"),
    "huge array": (NO_NAMES, b"\x1f\xff\xff\xff\xff" + bytes(40), "ends behind"),
    "huge object": (NO_NAMES, b"\x7e\xff\xff\xff\xff" + bytes(40), "ends behind"),
    "offset behind the end": (NO_NAMES, b"\x03\1\5\1\0", "ends behind"),
    "element behind its array": (NO_NAMES, b"\x03\2\0\1\2\0\x0c", "ends behind"),
    "field outside the dictionary": (NAMES, b"\2\1\3\0\1\0", "number of a field"),
    "fields unsorted": (NAMES, b"\2\2\1\0\0\1\2\0\0", "order of their names"),
    "field twice": (NAMES, b"\2\2\1\1\0\1\2\0\0", "order of their names"),
    "name twice": (b"\1\2\0\1\2aa", b"\2\2\0\1\0\1\2\0\0", "order of their names"),
    "elements overlap": (NO_NAMES, b"\3\2\0\0\2\x0c\1", "overlap"),
    "unknown type": (NO_NAMES, b"\x54", "type that is not known"),
    "text not UTF-8": (NO_NAMES, b"\x09\xc3\x28", "not UTF-8"),
    "half a surrogate": (NO_NAMES, b"\x0d\xed\xa0\x80", "not UTF-8"),
    "name not UTF-8": (b"\1\1\0\1\xff", b"\2\1\0\0\1\0", "not UTF-8"),
    "scale 39": (NO_NAMES, b"\x20\x27\1\0\0\0", "38 digits"),
    "39 digits": (NO_NAMES, b"\x28\0" + (10**38).to_bytes(16, "little"), "38 digits"),
    "25 hours": (NO_NAMES, b"\x44" + (90_000_000_000).to_bytes(8, "little"), "within a day"),
    "nested 10,000 deep": (NO_NAMES, nested(10_000), "nested too deeply"),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_row_is_named(case: str) -> None:
    metadata, value, problem = ROWS[case]
    good = encode({"a": Primitive("int8", 1)})
    with pytest.raises(MalformedVariantError, match=rf"^column 'v': row 2: the Variant is malformed: .*{problem}"):
        to_json(make_column([good, None, (metadata, value), good]), name="v")
    for path in ("$", "$.a", "$[0]", "$.a.b"):
        for target in (pa.string(), pa.int64()):
            with suppress(MalformedVariantError):
                extract(make_column([(metadata, value)]), parse_path(path), target, try_cast=True)


@pytest.mark.parametrize("case", ROWS)
def test_types_of_rows(case: str) -> None:
    """A row whose value cannot be read is damaged; others of the column are not."""
    metadata, value, _ = ROWS[case]
    good = encode({"a": Primitive("int8", 1)})
    reader = open_variant(make_column([good, None, (metadata, value), good]))
    assert reader.list_types([b"a"]).tolist()[::3] == [TYPES["integer"]] * 2
    assert reader.list_types([])[1] == TYPES["missing"]
    casts = {TYPES["integer"]: pa.int64(), TYPES["string"]: pa.string(), TYPES["decimal"]: pa.decimal128(38)}
    for path in (VariantPath(()), VariantPath(("a",)), VariantPath((0,)), VariantPath(("a", "b"))):
        found = int(reader.list_types(path.steps)[2])
        assert found in {*TYPES.values(), DAMAGED}
        if found in casts:  # it can be read
            extract(make_column([(metadata, value)]), path, casts[found], try_cast=True)


def test_as_deep_as_spark_takes() -> None:
    assert to_json(make_column([(NO_NAMES, nested(1000))]))[0].as_py() == "[" * 1000 + "null" + "]" * 1000
    with pytest.raises(MalformedVariantError, match="nested too deeply"):
        to_json(make_column([(NO_NAMES, nested(1001))]))


def test_small_rows_do_not_grow() -> None:
    """Elements that share bytes, level below level, would be 255 ** 40; names that share bytes, 2 GB."""
    value = b"\0"
    for _ in range(40):
        value = b"\x0f\xff" + bytes(4 * 255) + len(value).to_bytes(4, "little") + value
    with pytest.raises(MalformedVariantError, match="overlap"):
        to_json(make_column([(NO_NAMES, value)]))
    name = b"x" * 20_000
    metadata = b"\xc1" + (1).to_bytes(4, "little") + bytes(4) + len(name).to_bytes(4, "little") + name
    field, count = b"\2\1\0\0\1\0", 100_000
    offsets = b"".join((i * len(field)).to_bytes(4, "little") for i in range(count + 1))
    array = b"\x1f" + count.to_bytes(4, "little") + offsets + field * count
    with pytest.raises(MalformedVariantError, match="far longer than its bytes"):
        to_json(make_column([(metadata, array)]))


SHREDDED = pa.struct({"value": pa.binary(), "typed_value": pa.int64()})


@pytest.mark.parametrize(
    ("typed", "row", "problem"),
    [
        (pa.int64(), {"value": b"\0", "typed_value": 1}, "both set"),
        (pa.list_(SHREDDED), {"typed_value": [{"value": b"\0", "typed_value": 1}]}, "both set"),
        (pa.struct({"a": SHREDDED}), {"value": b"\0", "typed_value": {}}, "is no object"),
        (pa.struct({"a": SHREDDED}), {"value": b"\2\1\0\0\1\0", "typed_value": {}}, "in the value beside it"),
        (pa.struct({"a": SHREDDED}), {"value": b"\2\1\0\0\1\0", "typed_value": {"a": {"typed_value": 1}}}, "beside it"),
        (pa.struct({"a": SHREDDED}), {"typed_value": {"a": {"value": b"\x18"}}}, "ends behind"),
    ],
)
def test_a_shredded_row_is_named(typed: pa.DataType, row: dict[str, Any], problem: str) -> None:
    kind = pa.struct({"metadata": pa.binary(), "value": pa.binary(), "typed_value": typed})
    good = {"metadata": NAMES, "value": b"\0"}
    with pytest.raises(MalformedVariantError, match=f"^row 1: .*{problem}"):
        to_json(pa.array([good, {"metadata": NAMES, **row}], kind))


def test_a_field_is_not_lost_where_it_must_not_be() -> None:
    """A shredded field in the value beside the object: where it is missing in its own column, it is an error, too."""
    kind = pa.struct({"metadata": pa.binary(), "value": pa.binary(), "typed_value": pa.struct({"a": SHREDDED})})
    column = pa.array([{"metadata": NAMES, "value": b"\2\1\0\0\2\x0c\1", "typed_value": {}}], kind)
    with pytest.raises(MalformedVariantError, match="in the value beside it"):
        extract(column, parse_path("a"), pa.int64(), try_cast=True)


def test_metadata_that_is_null() -> None:
    kind = pa.struct({"metadata": pa.binary(), "value": pa.binary()})
    with pytest.raises(MalformedVariantError, match="it has no metadata"):
        to_json(pa.array([{"value": b"\0"}], kind))
    # It may be left out, where no names are looked up.
    assert to_json(pa.array([{"value": b"\0"}], pa.struct({"value": pa.binary()}))).to_pylist() == ["null"]
    with pytest.raises(MalformedVariantError, match="no metadata"):
        to_json(pa.array([{"value": b"\2\1\0\0\1\0"}], pa.struct({"value": pa.binary()})))


def test_damaged_documents() -> None:
    """Any change of a document gives an error or other values."""
    rng = random.Random(3)
    refused = 0
    for _ in range(scaled(60)):
        metadata, value = map(bytearray, encode(draw_document(rng), rng))
        part = metadata if rng.random() < 0.3 else value
        for _ in range(rng.randint(1, 3)):
            part[rng.randrange(len(part))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        del part[rng.randint(len(part) * 4 // 5, len(part)) :]
        column = make_column([(bytes(metadata), bytes(value))])
        for call in (to_json, lambda array: extract(array, parse_path("a"), pa.string(), try_cast=True)):
            try:
                call(column).validate(full=True)
            except (MalformedVariantError, VariantCastError):
                refused += 1
    assert refused


@pytest.mark.parametrize("node", [(b"", None), (b"",) * 9])
def test_nodes_are_checked(node: tuple[Any, ...]) -> None:
    with pytest.raises((ValueError, TypeError)):
        VariantReader([node], None)
    column = (None, None, None, 0, 5, False)
    with pytest.raises(ValueError, match=r"buffer|values"):
        VariantReader([(b"", column, (None, pa.py_buffer(b"1234"), None, 0, 5, False), 0, 0, 0, None, 0, 0)], None)
    with pytest.raises(ValueError, match="no such children"):
        VariantReader([(b"", column, None, 16, 0, 0, column, 0, 1)], None)

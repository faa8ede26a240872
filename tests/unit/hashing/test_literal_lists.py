"""Many literals at once mean what each of them means by itself."""

from __future__ import annotations

import datetime as dt
import math
import random
import uuid
from decimal import Decimal as D
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parquet_bloom.core.hash.xxh64 import hash_one
from parquet_bloom.hashing.coerce import coerce, hash_all, hash_literals, store_array, stored_forms
from parquet_bloom.hashing.column_type import Kind, from_parquet
from parquet_bloom.predicate.literal import from_collection

FIXED = "FIXED_LEN_BYTE_ARRAY"
each_type = pytest.mark.parametrize(
    "column_type",
    [
        *(from_parquet(physical) for physical in ("INT32", "INT64", "FLOAT", "DOUBLE", "BYTE_ARRAY", "INT96")),
        *(
            from_parquet("INT32", logical=logical)
            for logical in ({10: {1: 8, 2: True}}, {10: {1: 32, 2: False}}, {6: {}})
        ),
        *(from_parquet("INT64", logical=logical) for logical in ({10: {1: 64, 2: False}}, {5: {1: 2, 2: 12}})),
        *(from_parquet("BYTE_ARRAY", logical=logical) for logical in ({5: {1: 2, 2: 12}}, {1: {}})),
        *(from_parquet(FIXED, length) for length in (3,)),
        *(from_parquet(FIXED, 6, logical={5: {1: 2, 2: 12}}), from_parquet(FIXED, 2, logical={15: {}})),
        from_parquet(FIXED, 16, logical={14: {}}),
        from_parquet("INT64", logical={8: {1: True, 2: {2: {}}}}),
        from_parquet("INT64", logical={7: {1: False, 2: {3: {}}}}),
    ],
)


@pytest.mark.ci
@each_type
def test_a_list_means_what_its_literals_mean(column_type):
    pools: list[list[Any]] = [
        [0, 1, -1, 127, 128, -129, 2**31, -(2**31), 2**32 - 1, 2**53, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64],
        *([0.0, -0.0, 1.5, -1.0, 2.0**53, math.inf, -math.inf, 1e300], [math.nan, 1.0], ["\ud800", "a"], [True, False]),
        [D("0"), D("-0.0"), D("1.5"), D("1.555"), D("-99"), D(2**60)],
        ["", "a", "ä", "abc", "\U00010000", "2020-01-01", "00000000-0000-0000-0000-000000000001"],
        *([b"", b"abc", b"\xff\x00\x01"], [dt.date(1970, 1, 1), dt.date(1969, 12, 31)], [dt.time(1, 2, 3), dt.time(4)]),
        *([dt.datetime(2020, 1, 1), dt.datetime(1900, 1, 1, 0, 0, 0, 1)], [uuid.UUID(int=1), uuid.UUID(int=2)]),
    ]
    rng = random.Random(str(column_type))
    several = 0
    for _ in range(400):
        chosen = rng.sample(pools, rng.choice([1, 1, 1, 2]))
        literals = [rng.choice(rng.choice([*chosen, [None]])) for _ in range(rng.randint(0, 6))]
        each = [coerce([literal], column_type, "UTC") for literal in literals]
        reasons = {number: one.unknown for number, one in enumerate(each) if one.unknown is not None}
        coerced = coerce(literals, column_type, "UTC", go_on=True)
        assert coerced.reasons == reasons, literals
        assert [*coerced.literals] == [number for number, one in enumerate(each) for _ in one.values], literals
        assert [*coerced.values] == [value for one in each for value in one.values], literals
        assert [*map(type, coerced.values)] == [type(value) for one in each for value in one.values], literals
        assert coerce(literals, column_type, "UTC").unknown == next(iter(reasons.values()), None), literals
        forms = [stored_forms([value], column_type) for value in coerced.values]
        hashes, first_hash = hash_all(coerced.values, column_type)
        assert hashes.dtype == np.uint64
        assert hashes.tolist() == [hash_one(form) for some in forms for form in some], literals
        assert first_hash.tolist() == [0, *np.cumsum([*map(len, forms)]).tolist()], literals
        hashed = hash_literals(literals, column_type)
        assert hashed.hashes.tolist() == hashes.tolist(), literals
        owners = zip(coerced.literals, forms, strict=True)
        assert hashed.literals.tolist() == [number for number, some in owners for _ in some], literals
        assert hashed.reasons == reasons, literals
        several += len(coerced.values) > 1
    assert several > 5


def test_literals_that_are_equal_in_python_are_distinguished():
    """2**53 as a float may stand for several whole numbers, beside the whole number too; TRUE is none."""
    for literals, which in (([2**53, 2.0**53], 1), ([2.0**53, 2**53], 0), ([1, True], 1)):
        coerced = coerce(literals, from_parquet("INT64"), "UTC", go_on=True)
        assert [*coerced.reasons] == [which]
        assert [*coerced.literals] == [1 - which]
    # Those after an unknown one are left out unless they are asked for.
    assert [*coerce([1, "a", 2, "b"], from_parquet("INT64")).reasons] == [1]
    assert [*coerce([1, "a", 2, "b"], from_parquet("INT64"), go_on=True).reasons] == [1, 3]


@each_type
def test_an_array_means_what_its_values_mean_and_is_stored_as_they_are(column_type):

    def integers(kind: pa.DataType) -> pa.Array:
        low, high = (
            (-(1 << kind.bit_width - 1), 1 << kind.bit_width - 1)
            if pa.types.is_signed_integer(kind)
            else (0, 1 << kind.bit_width)
        )
        numbers = (0, 1, -1, 127, 200, -129, 2**31, 2**32 - 1, -(2**63), 2**63 - 1, 2**63)
        return pa.array([number for number in numbers if low <= number < high], kind)

    texts, raw, storable = ["", "a", "\\x41", "2020-01-01"], [b"", b"abc", bytes(16)], 0
    for whole in (
        *map(integers, (pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64())),
        *(pa.array(texts, kind) for kind in (pa.string(), pa.large_string(), pa.string_view())),
        *(pa.array(raw, kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
        *(pa.array([b"abc", b"abd"], pa.binary(3)), pa.array([bytes(16)], pa.binary(16))),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16))], pa.binary(16))),
        *(pa.array(["a", "abc", "ä"]), pa.array(["a", None, "b"]).dictionary_encode(), pa.array([True])),
        *(pa.array([0, -1, 18_000], pa.date32()), pa.array([0, 86_400_000], pa.date64()), pa.array([1.5, 0.0, None])),
        *(pa.array([D("1.50"), None]), pa.array([0, 1], pa.timestamp("us")), pa.array([1, None, 300, -1])),
        pa.array([1_001, None, 2_000], pa.timestamp("ns")),
    ):
        for array in (whole, whole[1:], whole[:0]):
            keep = pa.types.is_temporal(array.type)
            literals = [scalar if keep and scalar.is_valid else scalar.as_py() for scalar in array]
            if not isinstance(array, pa.ExtensionArray):
                assert coerce(array, column_type, go_on=True) == coerce(literals, column_type, go_on=True), array.type
            stored = None if array.null_count else store_array(array, column_type)
            if stored is not None:
                coerced = coerce(from_collection(array), column_type)
                assert coerced.unknown is None, array.type
                is_number = pa.types.is_integer(stored.type)
                form = (
                    stored.view(pa.binary(stored.type.bit_width // 8)).to_pylist() if is_number else stored.to_pylist()
                )
                assert form == stored_forms(coerced.values, column_type), array.type
                storable += len(form) > 0
    assert (storable > 0) == (column_type.kind in (Kind.INTEGER, Kind.STRING, Kind.BYTES, Kind.UUID, Kind.DATE))

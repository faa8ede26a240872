"""Variants as JSON, encoded and shredded: compared with a slow twin, and with parquet-testing's expected values."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import corpus
from support.oracle.variant_twin import at, json_of, parsed, paths_of
from support.random_cases.random_documents import draw_document, draw_odd_scalar, draw_scalar, draw_schema
from support.scale import scaled
from support.writers.variant_columns import NULL, Primitive, encode, make_column, make_shredded

from parquet_bloom.errors import MalformedVariantError
from parquet_bloom.variant.variant_path import VariantPath
from parquet_bloom.variant.variant_text import to_json

CASES = corpus.FOLDER / "variant"


def text_of(*documents: Any) -> list[str | None]:
    return to_json(make_column([None if document is None else encode(document) for document in documents])).to_pylist()


def test_each_type() -> None:
    documents = {
        "null": NULL,
        "true": Primitive("true"),
        "-128": Primitive("int8", -128),
        "9223372036854775807": Primitive("int64", 2**63 - 1),
        "1.0E10": Primitive("double", 1e10),
        "1.1": Primitive("float", 1.100000023841858),
        '"NaN"': Primitive("double", float("nan")),
        '"-Infinity"': Primitive("float", float("-inf")),
        "-0.5": Primitive("decimal4", (-50, 2)),
        "100": Primitive("decimal8", (1000, 1)),
        "0": Primitive("decimal16", (0, 38)),
        f"-{'9' * 38}": Primitive("decimal16", (1 - 10**38, 0)),
        '"1969-12-31"': Primitive("date", -1),
        '"+10000-01-01"': Primitive("date", 2_932_897),
        '"-0001-12-31"': Primitive("date", -719_529),
        '"12:00:00.5"': Primitive("time", 43_200_500_000),
        '"1969-12-31 23:59:59.999999+00:00"': Primitive("timestamp", -1),
        '"1970-01-01 00:00:01"': Primitive("timestamp_ntz", 1_000_000),
        '"1969-12-31 23:59:59.999999999"': Primitive("timestamp_ntz_nanos", -1),
        '"00112233-4455-6677-8899-aabbccddeeff"': Primitive("uuid", bytes.fromhex("00112233445566778899aabbccddeeff")),
        '"YWI="': Primitive("binary", b"ab"),
        '"é\\"\\\\\\n\\u001F/\x7f"': 'é"\\\n\x1f/\x7f',
        "[]": [],
        "{}": {},
        '[1,[{"a":null}]]': [Primitive("int8", 1), [{"a": NULL}]],
    }
    assert text_of(*documents.values(), None) == [*documents, None]


def test_the_order_of_fields() -> None:
    """An encoded object's is kept; what is put together is in the order of Java's texts."""
    names = ["b", "\ue000", "😀", "a"]
    document = dict.fromkeys(names, NULL)
    in_java = '{"a":null,"b":null,"😀":null,"\ue000":null}'
    texts = {to_json(make_column([encode(document, random.Random(seed))]))[0].as_py() for seed in range(8)}
    assert texts == {in_java, '{"a":null,"b":null,"\ue000":null,"😀":null}'}
    column = make_shredded([document], pa.struct({"\ue000": pa.int64(), "b": pa.int64()}), random.Random(1))
    assert to_json(column)[0].as_py() == in_java


def test_random_documents() -> None:
    """Shredded and encoded in any valid way, also from the middle of an array and in chunks."""
    rng = random.Random(7)
    for _ in range(scaled(8)):
        draws = (draw_document, draw_document, draw_scalar, draw_odd_scalar)
        documents = [rng.choice(draws)(rng) for _ in range(6)] + [None]
        expected = [None if document is None else parsed(json_of(document)) for document in documents]
        rows = [None if document is None else encode(document, rng) for document in documents]
        schema = draw_schema(rng.choice(documents[:-1]), rng) or pa.string()
        for column in (make_column(rows), make_shredded(documents, schema, rng)):
            assert list(map(parsed, to_json(column).to_pylist())) == expected
            assert list(map(parsed, to_json(column[2:5]).to_pylist())) == expected[2:5]
            chunked = pa.chunked_array([column[:3], column[3:3], column[3:]])
            assert list(map(parsed, to_json(chunked).to_pylist())) == expected
            for parts in rng.sample(found := [p for d in documents for p in paths_of(d)], min(4, len(found))):
                there = [at(document, parts) for document in documents]
                assert list(map(parsed, to_json(column, VariantPath(parts)).to_pylist())) == [
                    None if value is None else parsed(json_of(value)) for value in there
                ]


def test_an_empty_column() -> None:
    assert to_json(pa.chunked_array([], make_column([]).type)).to_pylist() == []
    assert to_json(make_column([])).to_pylist() == []


def test_what_is_missing_where_a_value_has_to_be() -> None:
    """The specification: it is a Variant null, in the column and in arrays; in objects there is no such field."""
    group = pa.struct({"value": pa.binary(), "typed_value": pa.int64()})
    typed = pa.struct({"a": group, "b": pa.struct({"value": pa.binary(), "typed_value": pa.list_(group)})})
    kind = pa.struct({"metadata": pa.binary(), "value": pa.binary(), "typed_value": typed})
    rows = [
        {"metadata": b"\1\0\0"},
        {"metadata": b"\1\0\0", "typed_value": {"a": {}, "b": {"typed_value": [{}, {"typed_value": 1}]}}},
    ]
    assert to_json(pa.array(rows, kind)).to_pylist() == ["null", '{"b":[null,1]}']


def test_columns_are_found_by_name() -> None:
    column = make_column([encode({"a": NULL})])
    turned = pa.StructArray.from_arrays([column.field("value"), column.field("metadata")], ["value", "metadata"])
    assert to_json(turned).to_pylist() == ['{"a":null}']


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (pa.struct({"metadata": pa.binary(), "value": pa.int64()}), "value of the Variant is int64, not binary"),
        (pa.struct({"metadata": pa.binary(), "typed_value": pa.uint8()}), "cannot be shredded to uint8"),
        (pa.struct({"metadata": pa.binary(), "x": pa.binary()}), "has other columns"),
        (pa.struct({"metadata": pa.binary(), "typed_value": pa.list_(pa.int8())}), "is int8, not a struct"),
        (pa.int64(), "is int64, not a struct"),
    ],
)
def test_other_columns_are_refused(kind: pa.DataType, problem: str) -> None:
    with pytest.raises(MalformedVariantError, match=problem):
        to_json(pa.nulls(1, kind), name="v")


# ------------------------------------------------------------------------------------------------------------
# parquet-testing's cases
# ------------------------------------------------------------------------------------------------------------


def expected_texts(case: dict[str, Any]) -> list[str | None]:
    rows = []
    for name in case.get("variant_files") or [case["variant_file"]]:
        data = Path(CASES, name).read_bytes()
        width = (data[0] >> 6) + 1
        count = int.from_bytes(data[1 : 1 + width], "little")
        last = 1 + width * (count + 1)
        end = last + width + int.from_bytes(data[last : last + width], "little")
        rows.append((data[:end], data[end:]))
    return to_json(make_column(rows)).to_pylist()


@pytest.mark.skipif(not CASES.exists(), reason="the corpus is not there")
def test_the_shredded_cases_of_parquet_testing() -> None:
    refused = []
    for case in json.loads((CASES / "cases.json").read_text()):
        column = pq.read_table(CASES / case["parquet_file"]).column("var")
        if "error_message" in case:
            with pytest.raises(MalformedVariantError, match="the Variant is malformed"):
                to_json(column)
            refused.append(case["case_number"])
        else:
            assert to_json(column).to_pylist() == expected_texts(case), case
    assert len(refused) >= 3

"""Files that DuckDB wrote, which shreds by itself: their values are what DuckDB reads."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from support.oracle.variant_twin import at, paths_of
from support.random_cases.random_documents import draw_json
from support.scale import scaled

from parquet_bloom.variant.variant_path import VariantPath
from parquet_bloom.variant.variant_text import to_json
from parquet_bloom.variant.variant_values import extract


def test_nested_objects_of_duckdb(tmp_path: Path) -> None:
    rng = random.Random(12)
    connection = duckdb.connect()
    for number in range(scaled(3)):
        documents = [draw_json(rng) for _ in range(10)] + [{"a": i, "b": draw_json(rng)} for i in range(30)]
        texts = pa.table({"text": [json.dumps(document) for document in documents]})
        path = tmp_path / f"{number}.parquet"
        connection.sql(f"copy (select text::json::variant v from texts) to '{path}'")
        assert texts.num_rows  # DuckDB finds the table by its name
        column = pq.read_table(path)["v"]
        read = [value and json.loads(value) for (value,) in connection.sql(f"select v::json from '{path}'").fetchall()]
        assert read == documents
        ours = [None if text is None else json.loads(text) for text in to_json(column).to_pylist()]
        assert ours == documents
        for parts in rng.sample(found := [p for d in documents for p in paths_of(d)], min(20, len(found))):
            there = [at(document, parts) for document in documents]
            texts_at = extract(column, VariantPath(parts), pa.string(), try_cast=False).to_pylist()
            assert [as_plain(value) for value in there] == [
                parse_plain(t, v) for t, v in zip(texts_at, there, strict=True)
            ]


def as_plain(value: Any) -> Any:
    """A value by its JSON, of which strings and null are themselves."""
    return value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)


def parse_plain(text: str | None, value: Any) -> Any:
    return text if text is None or isinstance(value, str) else json.dumps(json.loads(text), sort_keys=True)


def test_types_of_duckdb(tmp_path: Path) -> None:
    """Shredded by DuckDB to its types, and what pyarrow makes of these."""
    path = tmp_path / "types.parquet"
    values = ["5::tinyint i", "date '2020-01-02' d", "'00112233-4455-6677-8899-aabbccddeeff'::uuid u", "1.5::float f"]
    values += ["time '12:00:00.5' t", "1.50::decimal(20, 3) m", "'ab'::blob b", "[1, null] l"]
    values += ["timestamp '2020-01-02 03:04:05' n"]
    duckdb.sql(f"copy (select s::variant v from (select {', '.join(values)}) s) to '{path}'")
    column = pq.read_table(path)["v"]
    assert to_json(column)[0].as_py() == (
        '{"b":"YWI=","d":"2020-01-02","f":1.5,"i":5,"l":[1,null],"m":1.5,"n":"2020-01-02 03:04:05",'
        '"t":"12:00:00.5","u":"00112233-4455-6677-8899-aabbccddeeff"}'
    )
    uuid = extract(column, VariantPath(("u",)), pa.binary(16), try_cast=False)
    assert uuid[0].as_py().hex() == "00112233445566778899aabbccddeeff"

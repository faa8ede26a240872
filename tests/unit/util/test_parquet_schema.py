"""Arrow's schema of a footer, against `pyarrow.parquet`."""

from __future__ import annotations

import datetime as dt
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_bloom.metadata.footer import Footer
from parquet_bloom.scan.model.file_schemas import read_arrow_schema

PLAIN = {
    "flat": pa.table({"id": [1], "text": ["a"], "at": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]}),
    "nested": pa.table({"s": [{"a": [1], "b": {"c": "x"}}], "m": pa.array([[("k", 1)]], pa.map_("string", "int8"))}),
    "dictionary": pa.table({"d": pa.array(["x"]).dictionary_encode(), "large": pa.array(["x"], pa.large_string())}),
    "empty": pa.table({}),
    "metadata": pa.table(
        {"id": [1]}, pa.schema([pa.field("id", pa.int32(), False, {"a": "b"})], {"pandas": json.dumps({"x": []})})
    ),
}


def to_parquet(table, **options):
    with pa.BufferOutputStream() as sink:
        pq.write_table(table, sink, **options)
        return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("stored", [True, False])
def test_the_schema_is_that_of_pyarrow_parquet(name, stored):
    data = to_parquet(PLAIN[name], store_schema=stored)
    expected = pq.ParquetFile(pa.BufferReader(data)).schema_arrow
    assert read_arrow_schema(data, None).equals(expected, check_metadata=True)


@pytest.mark.parametrize("name", sorted(PLAIN.keys() - {"empty"}))
def test_a_footer_without_its_row_groups_has_the_same_schema(name):
    data = to_parquet(pa.concat_tables([PLAIN[name]] * 20), row_group_size=1, write_page_index=True)
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    (parsed,) = Footer.parse_many([footer], [len(data) - 8 - len(footer)])
    short = parsed.data_of_schema
    assert 3 * len(short) < len(footer) or name == "metadata"
    file = b"".join((b"PAR1", short, len(short).to_bytes(4, "little"), b"PAR1"))
    assert pq.ParquetFile(pa.BufferReader(file)).num_row_groups == 0
    assert read_arrow_schema(file, None).equals(read_arrow_schema(data, None), check_metadata=True)
    assert Footer(footer, 4).data_of_schema == footer  # read one by one, it does not know where they end


def test_old_timestamps_have_the_unit_that_is_given():
    data = to_parquet(PLAIN["flat"].select(["at"]), use_deprecated_int96_timestamps=True, store_schema=False)
    assert read_arrow_schema(data, None).field("at").type == pa.timestamp("ns")
    assert read_arrow_schema(data, "us").field("at").type == pa.timestamp("us")


def test_a_type_of_an_extension_is_left_to_pyarrow_parquet():
    data = to_parquet(pa.table({"id": pa.array([bytes(16)], pa.uuid())}), store_schema=False)
    assert read_arrow_schema(data, None) is None


def test_another_version_of_pyarrow_is_left_to_its_own(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow._parquet", None)
    assert read_arrow_schema(to_parquet(PLAIN["flat"]), None) is None


def test_what_is_no_footer_is_an_error():
    with pytest.raises((pa.ArrowException, OSError)):
        read_arrow_schema(b"PAR1" + bytes(20) + b"\x10\0\0\0PAR1", None)

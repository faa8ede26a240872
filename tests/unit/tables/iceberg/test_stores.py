"""Iceberg tables in object stores: the settings of pyiceberg's catalog are those of the data files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import parquet_bloom
from parquet_bloom.tables.iceberg.iceberg_snapshot import translate_settings

pytest.importorskip("pyiceberg")


def test_settings_are_translated() -> None:
    assert translate_settings({"type": "sql", "uri": "x"}) is None
    given = {"s3.endpoint": "http://127.0.0.1:1", "client.region": "eu-west-1", "s3.region": "us-east-1"}
    expected = {"aws_endpoint": "http://127.0.0.1:1", "aws_region": "us-east-1", "allow_http": "true"}
    assert translate_settings(given) == expected


def test_a_table_of_a_catalog_in_s3(s3: Any, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    options = s3.storage_options
    properties = {
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": s3.url("warehouse"),
        "s3.endpoint": options["aws_endpoint"],
        "s3.access-key-id": options["aws_access_key_id"],
        "s3.secret-access-key": options["aws_secret_access_key"],
        "s3.region": options["aws_region"],
    }
    catalog = SqlCatalog("stores", **properties)
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", pa.schema([("id", pa.int64())]))
    for start in (0, 100):
        table.append(pa.table({"id": range(start, start + 100)}))
    source = parquet_bloom.iceberg("db.events", catalog=catalog)
    assert parquet_bloom.read_table(source, "id = 150").to_pylist() == [{"id": 150}]
    assert parquet_bloom.prune(source, "id = 150").unopened_by == {"table": 1}
    assert parquet_bloom.dataset(table).count_rows() == 200

"""Iceberg tables that are given by their place, beside the catalog that has their names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.writers import changing_tables as tables

from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.tables.embed.embed_table import embed_table
from parquet_bloom.tables.iceberg import catalog_search

sql = pytest.importorskip("pyiceberg.catalog.sql")


def plain(name: str) -> str:
    return name.removeprefix("file://")


def test_folder_and_metadata_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tables.make_iceberg(tmp_path, 1)
    first = plain(table.metadata_location)
    table.append(tables.rows(100))
    folder, catalog = plain(table.location()), tables.open_catalog(tmp_path)
    os.symlink(folder, tmp_path / "link")
    monkeypatch.chdir(tmp_path / "warehouse")
    places = [folder, f"{folder}/", Path(folder), f"file://{folder}", "db/events", tmp_path / "link"]
    for number, place in enumerate(places):
        report = embed_table(place, ["id"], catalog=catalog, max_files=1)
        assert (report.table, report.num_complete) == ("db.events", min(number, 2))
    # A metadata file names the table, whose latest version has files that this one lacks.
    for place in (first, table.metadata_location):
        assert len(embed_table(place, ["s"], catalog=catalog, max_files=1).files) == 1
    assert not embed_table(folder, ["id", "s"], catalog=catalog).changed
    with pytest.raises(ParquetBloomError, match="none of the 1 table of the catalog is there: give the table's name"):
        embed_table(Path("db"), ["id"], catalog=catalog)


def test_other_names_nested_namespaces_and_tables_that_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = tables.make_catalog(tmp_path)
    for namespace in ("db.inner", "other"):
        catalog.create_namespace_if_not_exists(namespace)
    places = {"db.events": "one", "db.inner.events": "two", "other.one": "events", "other.last": "nowhere"}
    made = {
        name: catalog.create_table(name, tables.rows(0).schema, location=f"file://{tmp_path}/warehouse/{place}")
        for name, place in places.items()
    }
    for name, table in made.items():
        table.append(tables.rows(0))
        assert embed_table(table.location(), ["id"], catalog=catalog).table == name
    found = catalog_search.find_in_catalog(f"{tmp_path}/warehouse/two", catalog)
    assert found == ("db", "inner", "events")
    # Listed, and dropped before it is loaded.
    listed = catalog_search._list_tables
    monkeypatch.setattr(
        catalog_search, "_list_tables", lambda *given: [*listed(*given), ("db", "dropped"), ("other", "two")]
    )
    assert catalog_search.find_in_catalog(f"{tmp_path}/warehouse/two", catalog) == found
    monkeypatch.undo()
    catalog.register_table("other.again", made["db.events"].metadata_location)
    with pytest.raises(ParquetBloomError, match=r"several tables there, db\.events and other\.again: give the name"):
        embed_table(made["db.events"].location(), ["id"], catalog=catalog)
    # One that cannot be read might be the one.
    Path(plain(made["other.last"].refresh().metadata_location)).unlink()
    with pytest.raises(StorageError, match=r"^other\.last: cannot read the Iceberg table"):
        embed_table(f"{tmp_path}/warehouse/none", ["id"], catalog=catalog)


def test_a_name_is_no_place(tmp_path: Path) -> None:
    catalog = tables.make_iceberg(tmp_path, 1).catalog
    assert embed_table("db.events", ["id"], catalog=catalog).changed
    assert not embed_table(("db", "events"), ["id"], catalog=catalog).changed
    for wrong, text in ((5, "given by its name, not as int"), ("db", "cannot read the Iceberg table")):
        with pytest.raises(ParquetBloomError, match=text):
            embed_table(wrong, ["id"], catalog=catalog)  # type: ignore[arg-type]
    given: Any = 5
    for table in ("db.events", "db/events"):
        with pytest.raises(ParquetBloomError, match="a catalog is pyiceberg's or the name of one, not int"):
            embed_table(table, ["id"], catalog=given)


def test_a_server_that_has_no_nested_namespaces(tmp_path: Path) -> None:
    """It lists the outermost ones whatever it is asked for."""
    table = tables.make_iceberg(tmp_path, 1)

    class Flat(sql.SqlCatalog):  # type: ignore[misc, name-defined]
        def list_namespaces(self, namespace: Any = ()) -> Any:
            return super().list_namespaces()

    catalog = Flat(table.catalog.name, **table.catalog.properties)
    assert embed_table(table.location(), ["id"], catalog=catalog).table == "db.events"

"""Load an Iceberg table from its catalog, with the store's settings of the catalog only.

pyiceberg's catalogs add the properties in a table's metadata to the settings of the store, which may name code to run
(see `metadata_files.table`) or another endpoint for the caller's credentials. The settings that a REST catalog sends
with a table are the catalog's own, and are kept.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import StorageError

_OPENED = "opened_metadata_files"


@dataclass(frozen=True)
class CatalogTable:
    """A table by its name in a catalog. It can be pickled: the catalog is opened anew from its settings.

    Attributes
    ----------
    identifier : the table's name.
    catalog : pyiceberg's, or its name for `load_catalog`.
    properties : for `load_catalog`.
    """

    identifier: Any
    catalog: Any
    properties: Mapping[str, Any]

    def open(self) -> Any:
        """Load the table, as it is now.

        Raises
        ------
        StorageError
            pyiceberg's configuration does not say where the catalog is. pyiceberg raises errors of its own otherwise.
        """
        return _guard(self._load() if isinstance(self.catalog, str) else self.catalog).load_table(self.identifier)

    def _load(self) -> Any:
        from pyiceberg.catalog import load_catalog

        try:
            return load_catalog(self.catalog, **self.properties)
        except ValueError as error:
            if "--uri" not in str(error):  # an option of pyiceberg's own command
                raise
            variable = f"PYICEBERG_CATALOG__{self.catalog.upper()}__URI"
            where = f"give it in pyiceberg's configuration (.pyiceberg.yaml), or as {variable}"
            problem = f"cannot read the Iceberg table: the catalog {self.catalog!r} has no uri; {where}"
            raise StorageError(problem) from error

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self.catalog, str):
            return CatalogTable, (self.identifier, self.catalog, dict(self.properties))
        settings = type(self.catalog), self.catalog.name, dict(self.catalog.properties)
        return _reopen, (self.identifier, settings, dict(self.properties))


def _reopen(identifier: Any, settings: tuple[Any, str, dict[str, Any]], properties: dict[str, Any]) -> CatalogTable:
    catalog, name, of_catalog = settings
    return CatalogTable(identifier, catalog(name, **of_catalog), properties)


def list_opened(catalog: Any) -> list[str]:
    """Return the metadata files that the catalog of a table, as `CatalogTable.open` returns it, has opened or begun.

    The list grows with each call to the catalog. A catalog on a server, which writes them itself, has begun none.
    """
    opened: list[str] = getattr(catalog, _OPENED, [])
    return opened


def _guard(catalog: Any) -> Any:
    """Return a copy of a catalog that makes the FileIO of tables from its own settings, and notes what it is for."""
    copied = copy.copy(catalog)
    kind: Any = type(catalog)
    sent: dict[str, Any] = {}  # by a REST catalog, with the table
    opened: list[str] = []
    setattr(copied, _OPENED, opened)

    def load_file_io(properties: Mapping[str, Any] | None = None, location: str | None = None) -> Any:
        if location is not None:
            opened.append(location)
        return kind._load_file_io(copied, dict(sent), location)

    def make_table(identifier: Any, response: Any) -> Any:
        credentials = copied._resolve_storage_credentials(response.storage_credentials, response.metadata_location)
        sent.clear()
        sent.update(response.config | credentials)
        return kind._response_to_table(copied, identifier, response)

    if hasattr(kind, "_load_file_io"):
        copied._load_file_io = load_file_io
    if hasattr(kind, "_response_to_table"):
        copied._response_to_table = make_table
    return copied

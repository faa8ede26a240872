"""Find a table in a catalog by its folder: catalogs know tables by their names only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...errors import ParquetBloomError
from ...storage import is_url
from ...storage.file_names import ICEBERG_FILES
from ...storage.paths import resolve_given_path
from ...util.lazy import is_installed, late_module
from ...util.messages import count
from ..table_locations import find_folder, find_real, resolve_iceberg_path
from ..table_snapshot import make_missing_error
from .iceberg_snapshot import named_errors
from .iceberg_table import CatalogTable, IcebergTable, iceberg, open_catalog, require_catalog

if TYPE_CHECKING:
    import pyiceberg.exceptions as exceptions
    from pyiceberg.catalog import Catalog
else:
    exceptions = late_module("pyiceberg.exceptions")

Identifier = tuple[str, ...]


def is_place(table: str) -> bool:
    """Return whether a text is the path or URL of a table, and not its name in a catalog."""
    return "/" in table or is_url(table) or table.endswith(ICEBERG_FILES)


def open_at(place: str, catalog: Catalog | str) -> IcebergTable:
    """Return the table of a catalog that is at a path or URL; raises as `find_in_catalog`."""
    return iceberg(find_in_catalog(resolve_given_path(place), catalog), catalog=catalog)


def find_in_catalog(table: str, catalog: Catalog | str) -> Identifier:
    """Return the name of a table in a catalog.

    Tables that are called as the folder are loaded first, and all others only if it is none of them.

    Parameters
    ----------
    table : the path or URL of the table's folder, or of one of its metadata files.
    catalog : pyiceberg's, or the name of one.

    Raises
    ------
    ParquetBloomError
        It has no table there, or several; or pyiceberg is missing.
    StorageError
        The catalog or one of its tables cannot be read.
    """
    if not is_installed("pyiceberg"):
        raise make_missing_error("Iceberg", "pyiceberg", table)
    require_catalog(catalog)
    folder = find_real(find_folder(table))
    with named_errors(table), open_catalog(catalog, {}) as opened:
        names = sorted(_list_tables(opened, ()))
        called = os.path.basename(folder)
        for some in ([name for name in names if name[-1] == called], [name for name in names if name[-1] != called]):
            found = [name for name in some if _is_at(name, opened, folder)]
            if len(found) > 1:
                texts = " and ".join(".".join(name) for name in found)
                problem = f"the catalog has several tables there, {texts}: give the name of one"
                raise ParquetBloomError(problem, path=table)
            if found:
                return found[0]
    problem = f"none of the {count(len(names), 'table')} of the catalog is there"
    raise ParquetBloomError(f"{problem}: give the table's name in its catalog", path=table)


def _list_tables(catalog: Catalog, namespace: Identifier) -> Iterator[Identifier]:
    for name in catalog.list_namespaces(namespace):
        inner = tuple(name)
        # A server that has no nested namespaces may list all of them again.
        if len(inner) == len(namespace) + 1 and inner[:-1] == namespace:
            yield from map(tuple, catalog.list_tables(inner))
            yield from _list_tables(catalog, inner)


def _is_at(name: Identifier, catalog: Catalog, folder: str) -> bool:
    with named_errors(".".join(name)):
        try:
            location = CatalogTable(name, catalog, {}).open().location()
        except exceptions.NoSuchTableError:  # it was listed: somebody has dropped it meanwhile
            return False
        return find_real(resolve_iceberg_path(location.rstrip("/") or "/", ".".join(name))) == folder

"""`parquet_bloom.iceberg`: an Iceberg table, given in any way that pyiceberg knows."""

from __future__ import annotations

import copy
import datetime as dt
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import ParquetBloomError, StorageError
from ...redaction import redacted
from ...storage.file_names import ICEBERG_FILES
from ...util.lazy import is_installed, late_module
from ..table_snapshot import Table, TableFiles, TableSnapshot, make_missing_error
from .iceberg_snapshot import (
    Contents,
    IcebergSnapshot,
    Request,
    make_request,
    make_snapshot,
    named_errors,
    read_contents,
)
from .manifests import SizedCache
from .metadata_folder import CutShortError, MetadataFolder, NotUnderstoodError, OpenedTable, open_metadata_file

if TYPE_CHECKING:
    import pyiceberg.catalog as catalogs
    import pyiceberg.catalog.noop as noop
    import pyiceberg.table as iceberg_tables
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.rest import TableResponse
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table as PyicebergTable
    from pyiceberg.table.metadata import TableMetadata
else:
    catalogs, noop = late_module("pyiceberg.catalog"), late_module("pyiceberg.catalog.noop")
    iceberg_tables = late_module("pyiceberg.table")

_OPENED = "opened_metadata_files"


def require_catalog(catalog: object) -> None:
    """Raise unless this is a catalog, or may be the name of one."""
    if not isinstance(catalog, str | catalogs.Catalog):
        raise ParquetBloomError(f"a catalog is pyiceberg's or the name of one, not {type(catalog).__name__}")


@contextmanager
def open_catalog(catalog: Catalog | str, properties: Mapping[str, object]) -> Iterator[Catalog]:
    """Give a catalog: itself, or one of pyiceberg's configuration by its name, whose connections are closed at the end.

    Raises
    ------
    StorageError
        The configuration does not say where it is. pyiceberg raises errors of its own otherwise.
    """
    if not isinstance(catalog, str):
        yield catalog
        return
    try:
        opened = catalogs.load_catalog(catalog, **properties)
    except ValueError as error:
        if "--uri" not in str(error):  # an option of pyiceberg's own command
            raise
        variable = f"PYICEBERG_CATALOG__{catalog.upper()}__URI"
        where = f"give it in pyiceberg's configuration (.pyiceberg.yaml), or as {variable}"
        problem = f"cannot read the Iceberg table: the catalog {catalog!r} has no uri; {where}"
        raise StorageError(problem) from error
    try:
        yield opened
    finally:
        opened.close()


@dataclass(frozen=True)
class CatalogTable:
    """A table by its name in a catalog. It can be pickled: the catalog is opened anew from its settings.

    Attributes
    ----------
    identifier : the table's name.
    catalog : pyiceberg's, or its name for `load_catalog`.
    properties : for `load_catalog`.
    """

    identifier: str | tuple[str, ...]
    catalog: Catalog | str
    properties: Mapping[str, object]

    def open(self) -> PyicebergTable:
        """Load the table, as it is now; raises as `open_catalog`."""
        with ExitStack() as opened:
            catalog = opened.enter_context(open_catalog(self.catalog, self.properties))
            table = _guard(catalog).load_table(self.identifier)
            weakref.finalize(table, opened.pop_all().close)  # its commits need the catalog
        return table

    def __reduce__(self) -> tuple[object, ...]:
        if isinstance(self.catalog, str):
            return CatalogTable, (self.identifier, self.catalog, dict(self.properties))
        settings = type(self.catalog), self.catalog.name, dict(self.catalog.properties)
        return _reopen, (self.identifier, settings, dict(self.properties))


def _reopen(
    identifier: str | tuple[str, ...],
    settings: tuple[type[Catalog], str, dict[str, str]],
    properties: dict[str, object],
) -> CatalogTable:
    kind, name, catalog_properties = settings
    catalog = kind(name, **catalog_properties)
    table = CatalogTable(identifier, catalog, properties)
    weakref.finalize(table, catalog.close)
    return table


def list_opened(catalog: Catalog) -> list[str]:
    """Return the metadata files that the catalog of a table, as `CatalogTable.open` returns it, has opened or begun.

    The list grows with each call to the catalog. A catalog on a server, which writes them itself, has begun none.
    """
    opened: list[str] = getattr(catalog, _OPENED, [])
    return opened


def _guard(catalog: Catalog) -> Catalog:
    """Return a copy of a catalog that makes the FileIO of tables from its own settings, and notes what it is for."""
    copied = copy.copy(catalog)
    kind = type(catalog)
    sent: dict[str, str] = {}  # by a REST catalog, with the table
    opened: list[str] = []
    setattr(copied, _OPENED, opened)

    def load_file_io(properties: Mapping[str, object] | None = None, location: str | None = None) -> FileIO:
        if location is not None:
            opened.append(location)
        return kind._load_file_io(copied, dict(sent), location)

    def make_table(identifier: tuple[str, ...], response: TableResponse) -> PyicebergTable:
        credentials = copied._resolve_storage_credentials(response.storage_credentials, response.metadata_location)
        sent.clear()
        sent.update(response.config | credentials)
        return kind._response_to_table(copied, identifier, response)

    if hasattr(kind, "_load_file_io"):
        copied._load_file_io = load_file_io
    if hasattr(kind, "_response_to_table"):
        copied._response_to_table = make_table
    return copied


class StaticTable:
    """A table by its folder or one of its metadata files, with pyiceberg's settings of the store."""

    def __init__(self, path: str, properties: Mapping[str, object]) -> None:
        self.path, self.properties = path, properties
        self._known: OpenedTable | None = None
        self._folder = None if path.endswith(ICEBERG_FILES) else MetadataFolder(path, properties)

    def open(self) -> PyicebergTable:
        """Load the table, as it is now: the same object again if its metadata is the same."""
        if self._folder is not None:
            self._known = self._folder.open(self._known)
            return self._known.table
        try:
            self._known = open_metadata_file(self.path, self.properties, self._known)
        except (CutShortError, NotUnderstoodError) as error:
            raise StorageError(f"cannot read the Iceberg table: {error}", path=self.path) from None
        return self._known.table

    def pass_over(self, table: PyicebergTable) -> bool:
        """Leave out the metadata file that `open` has chosen, if its snapshot is not whole; return whether it is so."""
        return self._folder is not None and self._folder.pass_over(table)

    def __reduce__(self) -> tuple[object, ...]:
        return StaticTable, (self.path, self.properties)


@dataclass(frozen=True)
class LoadedTable:
    """A table of pyiceberg that has no catalog to ask for a later version."""

    table: PyicebergTable

    def open(self) -> PyicebergTable:
        return self.table


Source = StaticTable | CatalogTable | LoadedTable


@dataclass(frozen=True)
class _IcebergReading:
    """A snapshot, and what it was made of: metadata, its location, and the settings of the store."""

    metadata: TableMetadata
    location: str
    settings: Mapping[str, object]
    snapshot: IcebergSnapshot

    def is_of(self, table: PyicebergTable) -> bool:
        """Return whether a table, pyiceberg's, is as it was: a catalog may send other credentials each time."""
        same = self.metadata is table.metadata or self.metadata == table.metadata
        return same and self.location == table.metadata_location and self.settings == dict(table.io.properties)


class IcebergTable(Table):
    """An Iceberg table; see `iceberg`. It may be pickled, and used by several threads at once.

    The metadata is read anew each time. While it has not changed, the snapshot is the one that was read before; when it
    has, only new manifests are read, as manifests never change by the specification.

    Attributes
    ----------
    name : the table's folder, URL, metadata file or name in its catalog.
    """

    kind = "iceberg"

    def __init__(self, name: str, source: Source, request: Request, outside: bool) -> None:
        self.name = name
        self._source = source
        self._request = request
        self.outside = outside
        self._lock = threading.Lock()
        self._manifests = SizedCache()
        self._read: _IcebergReading | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return IcebergTable, (self.name, self._source, self._request, self.outside)

    def read_snapshot(self) -> IcebergSnapshot:
        """Read the table's metadata: at the snapshot that was requested, or else at the current one.

        Raises
        ------
        StorageError
            There is no such table or snapshot, or pyiceberg cannot read it.
        ParquetBloomError
            The table's metadata is not understood, or names files outside of the table's location.
        """
        with self._lock:
            table = self._open()
            if self._read is None or not self._read.is_of(table):
                contents = self._read_contents(table)
                snapshot, table = make_snapshot(contents, self.name, self.outside), contents.table
                self._read = _IcebergReading(
                    table.metadata, table.metadata_location, dict(table.io.properties), snapshot
                )
            return self._read.snapshot

    def read_contents(self) -> Contents:
        """Read the metadata as it is; raises as `read_snapshot`."""
        with self._lock:
            return self._read_contents(self._open())

    def _open(self) -> PyicebergTable:
        with named_errors(self.name):
            return self._source.open()

    def _read_contents(self, table: PyicebergTable) -> Contents:
        source = self._source
        given = source.path if isinstance(source, StaticTable) else None
        while True:
            try:
                return read_contents(table, self._request, self.name, given, self.outside, self._manifests)
            except ParquetBloomError:
                with named_errors(self.name):
                    if not isinstance(source, StaticTable) or not source.pass_over(table):
                        raise
            table = self._open()

    def describe(self, snapshot: TableSnapshot) -> dict[str, object]:
        if not isinstance(self._source, CatalogTable):
            return super().describe(snapshot)
        catalog, given = self._source.catalog, self._source.identifier
        has_dots = not isinstance(given, str) and any("." in part for part in given)
        name = given if isinstance(given, str) else [*given] if has_dots else ".".join(given)
        where = {"iceberg": name, "catalog": catalog if isinstance(catalog, str) else str(catalog.name or "")}
        return where | ({"outside": True} if self.outside else {})

    @property
    def has_catalog(self) -> bool:
        """Whether there is a catalog, which knows the current snapshot, and which can be committed to."""
        return isinstance(self._source, CatalogTable)

    @property
    def requested(self) -> str | None:
        """The snapshot that was requested; None for the current one."""
        given = {"snapshot": self._request.snapshot_id, "ref": self._request.ref, "as_of": self._request.as_of}
        return next((f"{name} {value}" for name, value in given.items() if value is not None), None)

    def latest(self, outside: bool | None = None) -> IcebergTable:
        """Return the table at its current snapshot; `outside` as of `iceberg`, None for that of this table."""
        return IcebergTable(self.name, self._source, Request(), self.outside if outside is None else outside)

    def __repr__(self) -> str:
        return redacted(super().__repr__())


def iceberg(
    table: PyicebergTable | str | os.PathLike[str] | tuple[str, ...],
    *,
    catalog: Catalog | str | None = None,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of: dt.datetime | str | None = None,
    properties: Mapping[str, object] | None = None,
    outside: bool = False,
) -> IcebergTable:
    """Name an Iceberg table, to be read at one of its snapshots; nothing is read yet.

    Parameters
    ----------
    table : a `pyiceberg.table.Table`; the path or URL of one of its `*.metadata.json`; that of its folder, where
        `metadata/version-hint.text` or else the highest number names the latest metadata file; or, with `catalog`, its
        name, such as "db.events".
    catalog : a pyiceberg Catalog, or the name of one as pyiceberg's `load_catalog` knows it.
    snapshot_id : the snapshot.
    ref : a branch or tag.
    as_of : the time of which the then current snapshot is read: a datetime, or text in ISO 8601; UTC unless it says.
        Without any of these, and until a time in the future has come, the current snapshot is read, each time anew
        where there is a catalog or a folder.
    properties : pyiceberg's settings of the store, for a path; or of the catalog, for the name of one. The properties
        in the table's metadata are ignored.
    outside : accept files outside of the table's location, such as files that were added in place. For a table given
        by a path, also accept a location other than the folder of its metadata, and manifests that lie elsewhere.

    Raises
    ------
    ParquetBloomError
        pyiceberg is missing, or what is given is not understood.

    Examples
    --------
    >>> table = parquet_bloom.iceberg("events/metadata/v2.metadata.json")  # doctest: +SKIP
    >>> parquet_bloom.read_table(table, "id = 7").num_rows  # doctest: +SKIP
    1
    """
    path = os.fsdecode(table) if isinstance(table, str | os.PathLike) else None
    if not is_installed("pyiceberg"):
        raise make_missing_error("Iceberg", "pyiceberg", path)
    request = make_request(snapshot_id, ref, as_of)
    if not isinstance(properties, Mapping | None):
        raise ParquetBloomError(f"properties must be a mapping, not {type(properties).__name__}")
    if catalog is not None:
        identifier = table if isinstance(table, str | tuple) else None
        if not identifier or not all(isinstance(part, str) for part in identifier):
            raise ParquetBloomError(f"with a catalog a table is given by its name, not as {type(table).__name__}")
        require_catalog(catalog)
        if properties and not isinstance(catalog, str):
            raise ParquetBloomError("properties are for the name of a catalog: this one has been opened")
        name = identifier if isinstance(identifier, str) else ".".join(identifier)
        return IcebergTable(name, CatalogTable(identifier, catalog, dict(properties or {})), request, outside)
    if path is not None:
        return IcebergTable(path, StaticTable(_strip(path), dict(properties or {})), request, outside)
    if not isinstance(table, iceberg_tables.Table):
        raise ParquetBloomError(f"an Iceberg table is a pyiceberg Table or a path, not {type(table).__name__}")
    if properties:
        raise ParquetBloomError("properties are for a path or the name of a catalog: this table has been opened")
    fixed = isinstance(table.catalog, noop.NoopCatalog)
    source = LoadedTable(table) if fixed else CatalogTable(table.name(), table.catalog, {})
    return IcebergTable(".".join(table.name()), source, request, outside)


def _strip(path: str) -> str:
    return path.rstrip("/") or "/"


def iceberg_files(
    table: PyicebergTable | str | os.PathLike[str],
    snapshot_id: int | None = None,
    properties: Mapping[str, object] | None = None,
    *,
    outside: bool = False,
) -> TableFiles:
    """Return the data files of an Iceberg table.

    Parameters
    ----------
    table : a `pyiceberg.table.Table` from a catalog; or the path of one of its `*.metadata.json`, or of its folder.
    snapshot_id : the snapshot, with columns by its schema; None for the current one, with the table's current schema.
    properties : pyiceberg's settings of the store, for a path; the properties in the table's metadata are ignored.
    outside : accept files outside of the table's location, such as files that were added in place. For a table given
        by a path, also accept a location other than the folder of its metadata, and manifests that lie elsewhere.

    Raises
    ------
    StorageError
        There is no such table, or pyiceberg cannot read it.
    ParquetBloomError
        pyiceberg is missing, there is no such snapshot, the metadata is not understood, a file is outside of the
        table's location, or the location is not the given folder.

    Examples
    --------
    >>> from parquet_bloom import tables
    >>> tables.iceberg_files(catalog.load_table("db.events"))  # doctest: +SKIP
    """
    given = iceberg(table, snapshot_id=snapshot_id, properties=properties, outside=outside)
    return TableFiles.of(given.read_snapshot(), outside)

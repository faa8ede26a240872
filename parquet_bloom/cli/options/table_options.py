"""Options that name a Delta or Iceberg table and one of its versions, and the files that a command works on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ...errors import ManagedTableError, ParquetBloomError
from ...file.metadata_cache import MetadataCache
from ...storage import is_url, managed_table, resolve_filesystem
from ...storage.file_names import ICEBERG, ICEBERG_FILES, describe_table
from ...storage.paths import resolve_local_path
from ...tables.open_table import DELTA_LOG, find_table
from ...tables.table_footers import as_table_footers
from ...util.lazy import late_module
from ..command import CommandOptions, flag, option, usage_error
from ..output.output import Output
from .name_completion import complete_catalogs
from .path_options import STDIN, MatchedPaths, find_files
from .shared_options import make_missing_path

if TYPE_CHECKING:
    from ...tables import table_snapshot
    from ...tables.delta import delta_table
    from ...tables.iceberg import catalog_search, iceberg_table
    from ...tables.table_snapshot import Table
else:  # most commands are given plain files
    table_snapshot = late_module("parquet_bloom.tables.table_snapshot")
    delta_table = late_module("parquet_bloom.tables.delta.delta_table")
    catalog_search = late_module("parquet_bloom.tables.iceberg.catalog_search")
    iceberg_table = late_module("parquet_bloom.tables.iceberg.iceberg_table")

WAY_OUT = "; a Delta or Iceberg table is read when its folder is the only PATH"


class TableRequest(CommandOptions):
    """The options that name a table in a catalog; commands that write to it use its latest version."""

    title = "A Delta or Iceberg table"
    rarely = True

    catalog: str | None = option(
        "NAME",
        "Take --table from this catalog, by its name in pyiceberg's configuration (.pyiceberg.yaml, or "
        "PYICEBERG_CATALOG__NAME__URI).",
        "--iceberg-catalog",
        shell_complete=complete_catalogs,
    )
    name: str | None = option("DB.NAME", "The Iceberg table of --iceberg-catalog, in place of PATH.", "--table")

    version: int | None = None
    snapshot_id: int | None = None
    ref: str | None = None
    as_of: dt.datetime | None = None
    outside: bool = False

    @property
    def in_catalog(self) -> bool:
        """Whether the table is given by its name; see `require_valid`."""
        return self.catalog is not None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments that name the table in a catalog."""
        if self.catalog is None or self.name is None:
            return ()
        return "--iceberg-catalog", self.catalog, "--table", self.name

    def require_valid(self, paths: Sequence[str]) -> None:
        """Raise click.UsageError for options that contradict each other, or PATHs."""
        if (self.catalog is None) != (self.name is None):
            raise usage_error("--iceberg-catalog and --table go together")
        if self.in_catalog and paths:
            raise usage_error("--table names the table: leave out PATH")
        if len(self._versions) > 1:
            raise usage_error(f"{' and '.join(self._versions)} exclude each other")
        if self._given and not self.in_catalog and (len(paths) > 1 or STDIN in paths):
            raise usage_error(f"{self._given[0]} is for one table, whose folder is the only PATH")
        if self.in_catalog and not self.name:
            raise usage_error("--table is empty")
        if self.in_catalog:
            self._require_kind("iceberg")

    def find(self, paths: Sequence[str], output: Output, certain: bool = False) -> Table | None:
        """Return the table that the options or the only PATH name, without reading it; None if they name none.

        Parameters
        ----------
        certain : look whether a URL is that of a table, which takes requests, although no option says so.

        Raises
        ------
        click.UsageError
            The options are for another kind of table, or for a table where there is none.
        """
        if self.catalog is not None and self.name is not None:
            return iceberg_table.iceberg(self.name, catalog=self.catalog, **self._iceberg_options)
        path, kind = "", None
        if len(paths) == 1 and paths[0] != STDIN:
            path = paths[0] if is_url(paths[0]) else resolve_local_path(paths[0])
            kind = self._find_kind(path, output, certain)
        if kind is None:
            if self._given:
                what = f"{paths[0]} is none" if paths else "no PATH names one"
                raise usage_error(f"{self._given[0]} is for a Delta or Iceberg table, and {what}")
            return None
        self._require_kind(kind)
        if kind == "iceberg":
            return iceberg_table.iceberg(path, **self._iceberg_options)
        options: dict[str, Any] = {"version": self.version, "as_of": self.as_of, "outside": self.outside}
        return delta_table.delta(path, storage_options=output.storage_options, **options)

    def find_to_change(self, paths: Sequence[str], output: Output) -> Table:
        """Return the table that the options or the only PATH name, to commit to it.

        Raises
        ------
        click.UsageError
            Not just one table is named.
        ParquetBloomError
            There is no such table.
        """
        # An Iceberg table is read by its folder alone, and committed to by its catalog, which may be told either way.
        if self.catalog is not None and self.name is None and len(paths) == 1:
            return catalog_search.open_at(paths[0], self.catalog).latest(self.outside)
        self.require_valid(paths)
        if len(paths) > 1 or (not paths and not self.in_catalog):
            raise usage_error(
                "--commit is for one table: its folder is the only PATH, or --iceberg-catalog and --table name it"
            )
        table = self.find(paths, output, certain=True)
        if table is None:
            problem = "this is no Delta or Iceberg table; plain files take erase, and embed and drop --in-place"
            raise ParquetBloomError(problem, path=paths[0])
        return table

    @property
    def _iceberg_options(self) -> dict[str, Any]:
        options = {"snapshot_id": self.snapshot_id, "ref": self.ref, "as_of": self.as_of}
        return options | {"outside": self.outside}

    @property
    def _versions(self) -> list[str]:
        """The options of versions that are given."""
        options = {"--version": self.version, "--snapshot": self.snapshot_id, "--ref": self.ref, "--as-of": self.as_of}
        return [name for name, value in options.items() if value is not None]

    @property
    def _given(self) -> list[str]:
        return [*self._versions, *(["--outside"] if self.outside else [])]

    def _find_kind(self, path: str, output: Output, certain: bool) -> str | None:
        if path.endswith(ICEBERG_FILES):
            return "iceberg"
        if not is_url(path):
            found = find_table(path, output.storage_options)
            return None if found is None else found.kind
        if not certain and not self._given:
            return None
        reason, root = managed_table(path, output.filesystem), path.rstrip("/")
        kinds = {describe_table(DELTA_LOG, root): "delta", describe_table(ICEBERG, root): "iceberg"}
        return None if reason is None else kinds.get(reason)

    def _require_kind(self, kind: str) -> None:
        if kind == "iceberg" and self.version is not None:
            raise usage_error(
                "--version is for Delta tables; the versions of this Iceberg table are chosen by --snapshot"
            )
        if kind == "delta" and (self.snapshot_id is not None or self.ref is not None):
            name = "--ref" if self.snapshot_id is None else "--snapshot"
            raise usage_error(f"{name} is for Iceberg tables; the versions of this Delta table are chosen by --version")


def _parse_moment(context: click.Context, parameter: click.Parameter, text: str | None) -> dt.datetime | None:
    if text is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        problem = f"{text!r} is not a time such as 2026-01-31 or 2026-01-31T12:00:00Z"
        raise click.BadParameter(problem, context, parameter) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


OUTSIDE = flag(
    "Accept files that the table's metadata names outside of its folder: whoever can write the metadata chooses them."
)


class RowsTable(TableRequest):
    """The options that name a table whose rows are changed."""

    outside: bool = OUTSIDE


class TableVersion(TableRequest):
    """The options that name a table to read, and its version."""

    about = (
        "The only PATH may be the folder of a Delta or Iceberg table, its URL, or an Iceberg table's *.metadata.json: "
        "then the files are those of its latest version, or of the one that --version, --snapshot, --ref or --as-of "
        "says."
    )

    version: int | None = option("N", "Read this version of a Delta table.", type=click.IntRange(min=0))
    snapshot_id: int | None = option("ID", "Read this snapshot of an Iceberg table.", "--snapshot", type=click.INT)
    ref: str | None = option("NAME", "Read this branch or tag of an Iceberg table.")
    as_of: dt.datetime | None = option(
        "TIME",
        "Read what the table was at this time, such as 2026-01-31T12:00:00Z; UTC unless it says.",
        callback=_parse_moment,
    )
    outside: bool = OUTSIDE


@dataclass(frozen=True)
class Inputs:
    """The files that a command works on.

    Attributes
    ----------
    files : the files.
    table : the table whose live files they are; None for others.
    facts : what a JSON document says of the table; nothing for other files.
    """

    files: list[MatchedPaths]
    table: table_snapshot.ReadTable | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def footers(self) -> MetadataCache | None:
        """What gives columns of a file the table's names when it is opened; None for files of no table."""
        return None if self.table is None else as_table_footers(None, self.table.snapshot.columns)


def find_inputs(paths: Sequence[str], request: TableRequest, output: Output) -> Inputs:
    """Return the files of PATH arguments, or of the table that they or options name, and say which version of it.

    Raises
    ------
    click.UsageError
        The options do not fit together, or to what the PATH is.
    ParquetBloomError
        The table cannot be read. Other paths without files are reported.
    """
    request.require_valid(paths)
    if not paths and not request.in_catalog:
        raise make_missing_path()
    table = request.find(paths, output)
    if table is None:
        try:
            return Inputs(find_files(paths, output, way_out=WAY_OUT, raises=[*map(is_url, paths)] == [True]))
        except ManagedTableError as error:
            table = request.find(paths, output, certain=True)
            if table is None:
                error.problem += WAY_OUT
                output.fail(error)
                return Inputs([])
    return read_inputs(table, output)


def read_inputs(table: Table, output: Output) -> Inputs:
    """Return the files of a table, and say which version of it; raises as `Table.read_snapshot`."""
    with output.step("table"):
        snapshot = table.read_snapshot()
    if output.filesystem is None:
        output.filesystem = resolve_filesystem(None, table.storage_options or snapshot.storage_options)
    read = table_snapshot.ReadTable(snapshot, table)
    output.remark(str(read))
    files = [MatchedPaths(file.path, snapshot.root, True) for file in snapshot.files]
    facts = {"kind": read.kind, "name": read.name, "version": snapshot.version, "id": snapshot.table_id}
    return Inputs(files, read, {"table": facts})

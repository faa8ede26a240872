"""Arguments and helpers shared by the index commands: INDEX, its settings, memory sizes."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any

import click

from ...errors import ParquetBloomError
from ...lake import index_manifest
from ...lake.lake_index import LakeIndex
from ...storage import is_url
from ...storage.index_folder import Folder
from ...storage.paths import resolve_local_path
from ...tables.open_table import find_table
from ..command import CommandOptions, argument, flag, group, option, usage_error
from ..output.output import Output
from .table_options import TableRequest

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,3})?) ?([KMG]?I?B)", re.ASCII | re.IGNORECASE)

INDEX = argument(
    "INDEX",
    "INDEX is the index's folder: a path, or a URL of an object store (s3://, gs://, az://, abfss://).",
    type=click.Path(readable=False),
)
NO_LIVE = flag("Do not list the lake: assume that its files have not changed, and ignore files added since.")


def open_index(output: Output, path: str, live: bool = True) -> LakeIndex:
    """Open an index; show a progress bar while the lake's files are checked."""
    with output.progress(0) as bar, output.step("open"):
        return LakeIndex.open(path, live=live, progress=bar.update, **storage_arguments(output))


def find_only_column(index: LakeIndex, option: str) -> str:
    """Return the column of an index that has one; raise click.UsageError, which asks for the option, if it has more."""
    if len(index.columns) != 1:
        raise usage_error(f"{option} is required: the index has {', '.join(index.columns)}")
    return index.columns[0]


def storage_arguments(output: Output) -> dict[str, Any]:
    """Return the storage arguments of `LakeIndex`: the same options for the index and the lake."""
    return {"storage_options": output.storage_options, "lake_storage_options": output.storage_options}


def parse_size(context: click.Context, parameter: click.Parameter, text: str) -> int:
    """Parse a size with a unit, such as 512MB, into bytes."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2].upper() not in _UNITS or not float(match[1]):
        raise click.BadParameter(f"{text!r} is not a size such as 512MB or 2GiB", context, parameter)
    return int(float(match[1]) * _UNITS[match[2].upper()])


MEMORY_LIMIT = option(
    "SIZE",
    "Approximate memory for sorting values; the rest is written to a temporary file (in $TMPDIR).",
    default="512MiB",
    callback=parse_size,
)


class LakeTable(CommandOptions):
    """The table that is a lake to index: by its path, or by its name in a catalog."""

    delta: str | None = option("PATH", "The files of this Delta table. Requires the extra 'delta'.")
    iceberg: str | None = option(
        "PATH",
        "The files of this Iceberg table: its folder, or its metadata file. Requires the extra 'iceberg'.",
    )
    named = group(TableRequest)

    def resolve_lake(self, paths: list[Any], output: Output, what: str) -> Any:
        """Return the lake to index, as `LakeIndex` takes it: paths or a table; None if neither is given.

        Parameters
        ----------
        what : name of the argument that takes paths, for error messages.
        """
        self.named.require_valid([])
        options = {what: paths, "--delta": self.delta, "--iceberg": self.iceberg, "--table": self.named.in_catalog}
        given = [name for name, value in options.items() if value]
        if len(given) > 1:
            raise usage_error(f"{' and '.join(given)} exclude each other")
        if self.named.in_catalog:
            return self.named.find([], output)
        if len(paths) == 1 and isinstance(paths[0], str) and find_table(paths[0], output.storage_options) is not None:
            return paths[0]  # a folder that holds a table is one
        for kind, path in (("delta", self.delta), ("iceberg", self.iceberg)):
            if path is not None:
                return {kind: path if is_url(path) else os.path.abspath(resolve_local_path(path))}
        return paths or None


def complete_indexed_columns(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the columns of a local index; reading one from an object store would delay the key press."""
    # click stops parsing at the option that lacks its value, so INDEX may be among the unparsed arguments.
    path = os.fspath(context.params.get("path") or next(iter(context.args), ""))
    if path and not is_url(path):
        with suppress(ParquetBloomError):
            return [name for name in index_manifest.newest(Folder(path)).columns if name.startswith(incomplete)]
    return []

"""What the commands about an index have in common: INDEX, what it is opened with, sizes of memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click

from ....errors import ParquetBloomError
from ....lake import manifest
from ....lake.index import LakeIndex
from ....storage import Folder, is_url
from ....storage.paths import resolve_local_path
from ...output.output import Output

INDEX_HELP = "INDEX is the index's folder: a path, or a URL of an object store (s3://, gs://, az://, abfss://)."

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,3})?) ?([KMG]?I?B)", re.ASCII | re.IGNORECASE)

index_argument = click.argument("path", metavar="INDEX", type=click.Path(readable=False))

no_live_option = click.option(
    "--no-live",
    is_flag=True,
    help="Do not look at the lake: files count as what they were, and of those that came since nothing is known.",
)


def opened(output: Output, path: str, live: bool = True) -> LakeIndex:
    """The index; while files are looked at, a bar is shown."""
    with output.progress(0) as bar, output.step("open"):
        return LakeIndex.open(path, live=live, progress=bar.of, **stores(output))


def stores(output: Output) -> dict[str, Any]:
    """Where the index is, and where the lake: both are reached by the same settings."""
    return {"storage_options": output.storage_options, "lake_options": output.storage_options}


def num_bytes(context: click.Context, parameter: click.Parameter, text: str) -> int:
    """A size as people write it, in bytes."""
    found = _SIZE.fullmatch(text)
    if found is None or found[2].upper() not in _UNITS or not float(found[1]):
        raise click.BadParameter(f"{text!r} is no size, such as 512MB or 2GiB", context, parameter)
    return int(float(found[1]) * _UNITS[found[2].upper()])


def memory_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--memory-limit SIZE`."""
    return click.option(
        "--memory-limit",
        metavar="SIZE",
        default="512MiB",
        show_default=True,
        callback=num_bytes,
        help="Room for values that are being sorted, about; the rest waits in a temporary file (in $TMPDIR).",
    )(function)


def table_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--delta PATH` and `--iceberg PATH`; `table_of` says what was given."""
    text = "The files of this Iceberg table: its folder, or its metadata file. Needs the extra 'iceberg'."
    function = click.option("--iceberg", metavar="PATH", help=text)(function)
    return click.option("--delta", metavar="PATH", help="The files of this Delta table. Needs the extra 'delta'.")(
        function
    )


def lake_of(paths: list[Any], delta: str | None, iceberg: str | None, what: str) -> Any:
    """What an index is of: paths, or a table; None if nothing is given.

    Parameters
    ----------
    what : how paths are given.
    """
    given = [name for name, value in ((what, paths), ("--delta", delta), ("--iceberg", iceberg)) if value]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other", click.get_current_context())
    if delta is not None:
        return {"delta": _placed(delta)}
    return {"iceberg": _placed(iceberg)} if iceberg is not None else paths or None


def _placed(path: str) -> str:
    """A table's path as it is understood from any folder."""
    return path if is_url(path) else os.path.abspath(resolve_local_path(path))


def indexed_columns(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of an index's columns, as shells complete them; none of one in an object store: a key was pressed."""
    path = os.fspath(context.params.get("path") or "")
    if path and not is_url(path):
        with suppress(ParquetBloomError):
            return [name for name in manifest.newest(Folder(path)).columns if name.startswith(incomplete)]
    return []

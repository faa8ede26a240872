"""Shell completion of column names after `--column`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import click
import pyarrow as pa

from ...errors import ParquetBloomError
from ...storage import is_url, open_source
from ...tables.open_table import find_table

_MAX_NAMES = 1000  # directory entries searched for a file, to answer within a key press
_PLAIN = re.compile(r"[\w@%+=:,./-]+")  # names that need no quotes in a shell


def complete_columns(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the columns of the first file below the command's PATHs; return none if finding it takes long."""
    # click stops parsing at the option that lacks its value, so PATHs may be among the unparsed arguments.
    named = (context.params.get(name) or () for name in ("paths", "lakes"))
    for path in (*chain.from_iterable(named), *context.args):
        if os.path.isdir(path):
            names_of_table = list_table_columns(os.fspath(path))
            if names_of_table is not None:
                return _complete(names_of_table, incomplete)
        file = _first_file(os.fspath(path))
        if file is not None:
            from ...scan.model.data_file import open_any  # slow to import, and needed only to complete columns

            try:
                with open_source(file) as source:
                    names = dict.fromkeys(open_any(source, None).columns)
            except ParquetBloomError:
                continue
            return _complete(names, incomplete)
    return []


def _complete(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def _first_file(path: str) -> str | None:
    """Return a local path if it is a file, else the first .parquet or .orc file below it."""
    if is_url(path):
        return None
    if os.path.isfile(path):
        return path
    seen = 0
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".parquet", ".orc")) and not name.startswith((".", "_")):
                return os.path.join(folder, name)
        seen += len(names) + len(folders)
        if seen > _MAX_NAMES:
            break
    return None


def list_table_columns(folder: str) -> list[str] | None:
    """Return the leaf columns of a table of which a local folder is the root; None for any other folder."""
    try:
        table = find_table(folder)
        return None if table is None else [*_list_leaves(table.read_snapshot().schema)]
    except ParquetBloomError:
        return []


def _list_leaves(fields: Any, before: str = "") -> Iterator[str]:
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _list_leaves(field.type, f"{before}{field.name}.")
        else:
            yield before + field.name


def complete_catalogs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the catalogs of pyiceberg's configuration; none if there is no pyiceberg."""
    try:
        from pyiceberg.utils.config import Config

        names = sorted(Config().config.get("catalog") or {})
    except Exception:  # a configuration that cannot be read is an error of the command, not of the key press
        return []
    return [name for name in names if name.startswith(incomplete)]

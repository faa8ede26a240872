"""Shell completion of column names after `--column`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import chain

import click

from ...errors import ParquetBloomError
from ...storage import is_url

_MAX_NAMES = 1000  # directory entries searched for a file, to answer within a key press
_PLAIN = re.compile(r"[\w@%+=:,./-]+")  # names that need no quotes in a shell


def complete_columns(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the columns of the first file below the command's PATHs; return none if finding it takes long."""
    # click stops parsing at the option that lacks its value, so PATHs may be among the unparsed arguments.
    named = (context.params.get(name) or () for name in ("paths", "lakes"))
    for path in (*chain.from_iterable(named), *context.args):
        if os.path.isdir(path):
            from .table_completion import list_table_columns  # slow to import, as below

            names_of_table = list_table_columns(os.fspath(path))
            if names_of_table is not None:
                return _complete(names_of_table, incomplete)
        file = _first_file(os.fspath(path))
        if file is not None:
            from ..output.orc_rows import open_file  # slow to import, and needed only to complete columns

            try:
                with open_file(file, None) as file_:
                    names = dict.fromkeys(file_.columns)
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

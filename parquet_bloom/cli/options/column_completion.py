"""Names of columns, as shells complete them behind `--column`."""

from __future__ import annotations

import os
import re
from itertools import chain

import click

from ...errors import ParquetBloomError
from ...storage import is_url

_MOST_NAMES = 1000  # in folders, among which a file is sought: a key was pressed
_PLAIN = re.compile(r"[\w@%+=:,./-]+")  # what shells take without quotes


def columns_beginning(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Columns of the first file that the command's PATHs lead to; none where that is not quickly found."""
    # The option still lacks its value, at which click gives up: the arguments it has seen stay as they were.
    named = (context.params.get(name) or () for name in ("paths", "lakes"))
    for path in (*chain.from_iterable(named), *context.args):
        file = _first_file(os.fspath(path))
        if file is not None:
            from ..output.orc_rows import opened  # who completes nothing need not wait for it

            try:
                with opened(file, None) as found:
                    names = dict.fromkeys(found.columns)
            except ParquetBloomError:
                continue
            return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]
    return []


def _first_file(path: str) -> str | None:
    """A local path's own file, or the first one below it that is called .parquet or .orc."""
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
        if seen > _MOST_NAMES:
            break
    return None

"""Keys to look up, and the lake that they are looked up in: `--key`, `--keys`, `--key-column`, `--index`, PATHs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...errors import ManagedTableError
from ...lake.index_manifest import list_lake_roots
from ...lake.lake_index import LakeIndex
from ...scan.lookup.key_lookups import KeyLookups
from ...scan.scan_source import ScanSource
from ...storage import is_url
from ..command import CommandOptions, group, option, usage_error
from ..output.output import Output
from .index_options import find_only_column
from .key_options import KeyList, KeyStream, open_key_file, parse_key_options
from .name_completion import complete_columns
from .path_options import STDIN, MatchedPaths, check_output, expand_stdin
from .shared_options import TIMEZONE, make_missing_path
from .table_options import WAY_OUT, TableVersion

ABOUT_KEYS = (
    "A key is text of its column's type: 42, 1.50, 2026-01-30, 2026-01-30T12:00:00Z, a UUID, a string as it is, "
    "bytes as X'AB'. Several columns together are one key: tenant=a,id=42; where a value has a comma, quote it "
    "with its column: '\"name=Smith, J.\",id=42'."
)


class KeyLookup(CommandOptions):
    """Keys, and the lake and the index that they are looked up in."""

    title = "Keys"

    about = ABOUT_KEYS

    given: tuple[str, ...] = option(
        "COLUMN=VALUE",
        "A key to look up. Repeatable; several columns that are a key together are separated by commas.",
        "--key",
        multiple=True,
    )
    keys_from: str | None = option(
        "FILE",
        "Look up the keys of this file. It is text with one key per line, or - for standard input; or a Parquet or "
        "Arrow file that has the column, or only one; or a .csv file whose header has it.",
        "--keys",
    )
    key_columns: tuple[str, ...] = option(
        "NAME",
        "A column of --keys. Repeatable, for keys of several columns. Default: the index's column, if it has one.",
        "--key-column",
        multiple=True,
        shell_complete=complete_columns,
    )
    index: str | None = option(
        "FOLDER",
        "The index of the lake that says which files may have a key. Without PATHs: all files of its lake.",
    )
    timezone: str = TIMEZONE
    table = group(TableVersion)

    @contextmanager
    def open_keys(self, paths: Sequence[str], output: Output) -> Iterator[KeyList | KeyStream]:
        """Open the keys.

        Raises
        ------
        click.UsageError
            The options do not fit together, or a --key is not of the form COLUMN=VALUE.
        ParquetBloomError
            The file of keys cannot be read, or has no such column; or the index does not say which column is meant.
        """
        if not self.given and self.keys_from is None:
            raise usage_error("nothing to look up: give --key COLUMN=VALUE, or --keys FILE")
        if self.given and self.keys_from is not None:
            raise usage_error("--key and --keys exclude each other")
        if self.keys_from is None and self.key_columns:
            raise usage_error("--key-column is for --keys; --key names its columns itself")
        if len({*self.key_columns}) < len(self.key_columns):
            raise usage_error("--key-column names a column twice")
        if self.keys_from is None:
            yield parse_key_options(self.given)
            return
        columns = self.key_columns or (self._find_only_column(output),)
        with open_key_file(self.keys_from, columns, paths, output) as keys:
            yield keys

    def _find_only_column(self, output: Output) -> str:
        if self.index is None:
            raise usage_error("--keys needs --key-column")
        with LakeIndex.open(self.index, live=False, filesystem=output.filesystem) as opened:
            return find_only_column(opened, "--key-column")

    def open_lookups(self, paths: Sequence[str], output: Output) -> KeyLookups:
        """Open the files of PATHs, of a table, or without them of the index's own lake.

        Raises
        ------
        click.UsageError
            There are no PATHs and no index, or the options of tables do not fit.
        ParquetBloomError
            The files, the table or the index cannot be read.
        """
        self.table.require_valid(paths)
        if not paths and not self.table.in_catalog and self.index is None:
            raise make_missing_path()
        source: Any = self.table.find(paths, output)
        if source is None and paths:
            # The only PATH as it is, since it may be a table's folder, which is recognised too.
            source = paths[0] if len(paths) == 1 and paths[0] != STDIN else [*expand_stdin(paths)]
        try:
            return self._open_files(source, output)
        except ManagedTableError as error:
            table = self.table.find(paths, output, certain=True) if [*map(is_url, paths)] == [True] else None
            if table is None:
                error.problem += WAY_OUT
                raise
            return self._open_files(table, output)

    def _open_files(self, source: Any, output: Output) -> KeyLookups:
        return KeyLookups.open(ScanSource(source, output.filesystem, index=self.index, variant="json").resolve())

    def check_target(
        self, lookups: KeyLookups, paths: Sequence[str], output: Output, target: str, *, inside: bool = False
    ) -> None:
        """Reject an output file that is itself a file of the lake, or lies in one of its folders.

        Parameters
        ----------
        inside : accept one in these folders, for a file that belongs into a table's.
        """
        roots = [path for path in paths if path != STDIN and not inside]
        if not paths and self.index is not None and not inside:
            with LakeIndex.open(self.index, live=False, filesystem=output.filesystem) as opened:
                roots = list_lake_roots(opened.state.manifest.lake)
        files = [MatchedPaths(file, None, False) for file in lookups.files]
        check_output([*files, *(MatchedPaths(root, root, True) for root in roots if os.path.isdir(root))], target)

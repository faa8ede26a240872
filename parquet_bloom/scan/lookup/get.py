"""Read the rows of keys."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from ...errors import ParquetBloomError, StorageError, UnknownColumnError
from ...predicate.key_match import match_keys
from ...util.arrow_select import take
from ...util.arrow_values import empty_table
from ..model.fit import fit_table
from ..model.named_columns import suggest_names
from ..options import ScanOptions
from ..read.reader import RowReader
from ..source import ScanSource
from ..table_columns import has_column, make_names_error, select_columns, select_table_columns
from .keys import Keys
from .session import Lookup, LookupSession


def get_rows(
    source: ScanSource,
    schema: pa.Schema,
    session: LookupSession | None,
    keys: Keys,
    columns: Sequence[str] | None,
    options: ScanOptions,
    note: Callable[[pa.Table], None] | None = None,
) -> pa.Table:
    """Read the rows of keys, in the order of the keys and of the files; see `Dataset.get`.

    Parameters
    ----------
    note : called with rows as they are read, before more are; what it raises ends the read.
    """
    if isinstance(columns, str):
        raise make_names_error(columns)
    for column in keys.columns:
        if not has_column(schema, column):
            similar = suggest_names(column, schema.names, can_ignore_case=False)
            raise UnknownColumnError(f"the dataset has no such column{similar}", column=column)
    if not len(keys):
        return empty_table(select_table_columns(schema, columns, kind="dataset")[1])
    reader = _KeyReader(source, schema, keys, columns, replace(options, named=schema.names.__contains__), note)
    if session is None:
        return reader.read(None)
    lookup: Lookup | None = None
    try:
        with session.begin(refresh=False) as lookup:
            rows = reader.read(lookup)
    except ParquetBloomError as error:
        is_gone = isinstance(error, StorageError) and error.errno == errno.ENOENT
        if lookup is None or (lookup.is_current and not is_gone):
            raise
    else:
        if lookup.is_current:
            return rows
    with session.begin(refresh=True) as lookup:  # files have changed, of which one may be gone
        return reader.read(lookup)


@dataclass(frozen=True)
class _KeyReader:
    """The arguments of `get_rows`."""

    source: ScanSource
    schema: pa.Schema
    keys: Keys
    columns: Sequence[str] | None
    options: ScanOptions
    note: Callable[[pa.Table], None] | None

    def read(self, lookup: Lookup | None) -> pa.Table:
        """Read the rows.

        Parameters
        ----------
        lookup : by an index; None to plan a scan of all files.
        """
        keys, timezone, threads = self.keys, self.options.timezone, self.options.threads
        plan = None
        if lookup is not None:
            schema = select_columns(self.schema, self.columns)[1]
            if len(keys) == len(keys.columns) == 1 and schema is not None and len(schema):
                rows = lookup.read(keys, schema, timezone)
                if rows is not None:
                    if self.note is not None:
                        self.note(rows)
                    return rows
            plan = lookup.plan(keys, self.options)
        if plan is None:
            plan = self.source.plan(keys.node, self.options, self.schema)
        names = self.columns
        if names is not None:
            names = [*names, *(name for name in keys.columns if name not in names)]
        # Columns and types are the dataset's, whichever files have the rows.
        chosen, schema = select_table_columns(self.schema, names, kind="dataset")
        reader = RowReader(plan, chosen, schema=schema, cache=self.source.cache)
        rows = reader.read_table(threads=threads, note=self.note)
        if len(keys) > 1:
            rows = take(rows, match_keys(rows, keys.columns, keys.literals, timezone).rows)
        if self.columns is None:
            return rows
        return fit_table(rows, select_table_columns(self.schema, self.columns, kind="dataset")[1])

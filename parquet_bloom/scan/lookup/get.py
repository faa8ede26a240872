"""Read the rows of keys."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace

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
    options = replace(options, named=schema.names.__contains__)

    def read(lookup: Lookup | None) -> pa.Table:
        """Read the rows by an index; None to plan a scan of all files."""
        plan = None
        if lookup is not None:
            shown = select_columns(schema, columns)[1]
            if len(keys) == len(keys.columns) == 1 and shown is not None and len(shown):
                rows = lookup.read(keys, shown, options.timezone)
                if rows is not None:
                    if note is not None:
                        note(rows)
                    return rows
            plan = lookup.plan(keys, options)
        if plan is None:
            plan = source.plan(keys.node, options, schema)
        # Columns and types are the dataset's, whichever files have the rows.
        names = None if columns is None else list(dict.fromkeys([*columns, *keys.columns]))
        chosen, read_schema = select_table_columns(schema, names, kind="dataset")
        reader = RowReader(plan, chosen, schema=read_schema, cache=source.cache)
        rows = reader.read_table(threads=options.threads, note=note)
        if len(keys) > 1:
            rows = take(rows, match_keys(rows, keys.columns, keys.literals, options.timezone).rows)
        return rows if columns is None else fit_table(rows, select_table_columns(schema, columns, kind="dataset")[1])

    if session is None:
        return read(None)
    lookup: Lookup | None = None
    try:
        with session.begin(refresh=False) as lookup:
            rows = read(lookup)
    except ParquetBloomError as error:
        is_gone = isinstance(error, StorageError) and error.errno == errno.ENOENT
        if lookup is None or (lookup.is_current and not is_gone):
            raise
    else:
        if lookup.is_current:
            return rows
    with session.begin(refresh=True) as lookup:  # files have changed, of which one may be gone
        return read(lookup)

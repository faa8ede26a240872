"""Read the rows of keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from ...errors import UnknownColumnError
from ...predicate.key_match import match_keys
from ...util.arrow_values import empty_table
from ..model.named_columns import suggest_names
from ..read.reader import RowReader
from ..schema import has_column, select_columns
from ..source import ScanSource
from ..table_columns import select_table_columns
from .keys import Keys
from .session import LookupSession


def get_rows(
    source: ScanSource,
    schema: pa.Schema,
    session: LookupSession | None,
    keys: Keys,
    columns: Sequence[str] | None,
    timezone: str,
    threads: int | None,
    note: Callable[[pa.Table], None] | None = None,
) -> pa.Table:
    """Read the rows of keys, in the order of the keys and of the files; see `Dataset.get`.

    Parameters
    ----------
    note : called with rows as they are read, before more are; what it raises ends the read.
    """
    for column in keys.columns:
        if not has_column(schema, column):
            raise UnknownColumnError(
                f"the dataset has no such column{suggest_names(column, schema.names)}", column=column
            )
    if not len(keys):
        return empty_table(select_table_columns(schema, columns, kind="dataset")[1])
    chosen, result = select_columns(schema, columns)
    if session is not None and len(keys) == 1 and result is not None and len(result):
        rows = session.read(keys, result, timezone)
        if rows is not None:
            if note is not None:
                note(rows)
            return rows
    plan = None if session is None else session.plan(keys, timezone, threads)
    if plan is None:
        plan = source.plan(keys.node, timezone=timezone, threads=threads, named=schema.names.__contains__)
    names = columns if columns is None else [*columns, *(name for name in keys.columns if name not in columns)]
    chosen, result = select_columns(schema, names)
    rows = RowReader(plan, chosen, schema=result, cache=source.cache).read_table(threads=threads, note=note)
    if len(keys) > 1:
        rows = rows.take(pa.array(match_keys(rows, keys.columns, keys.literals, timezone).rows))
    return rows if columns is None else rows.select(columns)

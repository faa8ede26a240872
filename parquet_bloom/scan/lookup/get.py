"""Read the rows of keys."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ...errors import ParquetBloomError
from ...predicate.key_match import match_keys
from ...util.arrow_values import empty_table
from ..read.reader import RowReader
from ..schema import select_columns
from ..source import ScanSource
from .keys import Keys
from .session import Lookup, LookupSession


def get_rows(
    source: ScanSource,
    schema: pa.Schema,
    session: LookupSession | None,
    keys: Keys,
    columns: Sequence[str] | None,
    timezone: str,
    threads: int | None,
) -> pa.Table:
    """Read the rows of keys, in the order of the keys and of the files; see `Dataset.get`."""
    if not len(keys):
        return empty_table(select_columns(schema, columns)[1] or schema)
    reader = _KeyReader(source, schema, keys, columns, timezone, threads)
    if session is None:
        return reader.read(None)
    lookup: Lookup | None = None
    try:
        with session.begin(refresh=False) as lookup:
            rows = reader.read(lookup)
    except ParquetBloomError:
        if lookup is None or lookup.is_current:
            raise
    else:
        if lookup.is_current:
            return rows
    with session.begin(refresh=True) as lookup:  # files have changed, of which one may be gone
        return reader.read(lookup)


class _KeyReader:
    def __init__(
        self,
        source: ScanSource,
        schema: pa.Schema,
        keys: Keys,
        columns: Sequence[str] | None,
        timezone: str,
        threads: int | None,
    ):
        self._source = source
        self._schema = schema
        self._keys = keys
        self._columns = columns
        self._timezone = timezone
        self._threads = threads

    def read(self, lookup: Lookup | None) -> pa.Table:
        """Read the rows.

        Parameters
        ----------
        lookup : by an index; None to plan a scan of all files.
        """
        keys, timezone, threads = self._keys, self._timezone, self._threads
        plan = None
        if lookup is not None:
            schema = select_columns(self._schema, self._columns)[1]
            if len(keys) == len(keys.columns) == 1 and schema is not None and len(schema):
                rows = lookup.read(keys, schema, timezone)
                if rows is not None:
                    return rows
            plan = lookup.plan(keys, timezone, threads)
        if plan is None:
            has_column = self._schema.names.__contains__
            plan = self._source.plan(keys.node, timezone=timezone, threads=threads, named=has_column)
        names = self._columns
        if names is not None:
            names = [*names, *(name for name in keys.columns if name not in names)]
        chosen, result = select_columns(self._schema, names)
        rows = RowReader(plan, chosen, schema=result, cache=self._source.cache).read_table(threads=threads)
        if len(keys) > 1:
            rows = rows.take(pa.array(match_keys(rows, keys.columns, keys.literals, timezone).rows))
        return rows if self._columns is None else rows.select(self._columns)

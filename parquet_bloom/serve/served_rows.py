"""Rows of the lake by their keys: which keys may be looked up, how much of an answer there may be, and its form."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from ..errors import ParquetBloomError, PredicateError, UnknownColumnError
from ..lake.index_manifest import IndexManifest
from ..lake.lake_index import LakeIndex
from ..predicate.key_expression import TUPLE, KeyExpression
from ..scan.lookup.lookup_session import LookupKeys, LookupSession, get_rows
from ..scan.scan_options import ScanOptions
from ..scan.scan_source import ScanSource, fix_schema
from ..util.plain_values import plain_rows
from .error_responses import ApiError, encode_json, hide_index_path, leads_outside, outside_answer
from .request_body import MAX_KEY_COLUMNS, check_timezone, parse_literals
from .service_settings import Settings

ARROW_STREAM = "application/vnd.apache.arrow.stream"

_ITEM, _PARAMETER = (re.compile(rf'(?:[^{separator}"]|"(?:\\.|[^"\\])*"?)+') for separator in ",;")
_WEIGHT_NAME, _WEIGHT = re.compile(r"q\s*=", re.IGNORECASE), re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")

_ROWS_AT_A_TIME = 1_000  # that are encoded before the answer's size is checked


class GetQuery(NamedTuple):
    """A request for rows; see `GetRequest`.

    Attributes
    ----------
    columns : of the key.
    keys : one literal, or for several columns a list of one for each, of each key.
    selected : columns of the rows; None for all.
    """

    columns: list[str]
    keys: list[object]
    selected: list[str] | None
    timezone: str
    as_arrow: bool


class _RowsSource(NamedTuple):
    """The lake as rows are read from it.

    Attributes
    ----------
    session : None where a scan is planned for each request, as it is for a table.
    """

    source: ScanSource
    schema: pa.Schema
    session: LookupSession | None


class RowLookups:
    """Reads the rows of keys out of an index's lake; thread-safe.

    Parameters
    ----------
    index : the index; each request uses its state at that time.
    settings : limits of the answers.
    """

    def __init__(self, index: LakeIndex, settings: Settings):
        self._index = index
        self._settings = settings
        self._source: _RowsSource | None = None
        self._lock = threading.Lock()

    def reset(self) -> None:
        """Read the schema of the lake again before the next rows, as its files have changed."""
        self._source = None

    def read(self, query: GetQuery, is_stopping: Callable[[], bool]) -> tuple[bytes, int]:
        """Return the encoded response to a request, and its number of rows.

        Raises
        ------
        ApiError
            The request is invalid, or its answer too large.
        ParquetBloomError
            There is no such column, or the lake or the index cannot be read.
        """
        check_timezone(query.timezone)
        keys = _parse_keys(query)
        _require_found_by(self._index.state.manifest, keys.columns)
        number = self._index.state.manifest.number
        source, schema, session = self._open()
        limit = _AnswerLimit(self._settings, is_stopping)
        selected = None if query.selected is None else [*dict.fromkeys(query.selected)]
        rows = get_rows(source, schema, session, keys, selected, ScanOptions(query.timezone), limit.add)
        answer = self._encode_stream(rows) if query.as_arrow else self._encode_rows(rows, number)
        return answer, rows.num_rows

    def _open(self) -> _RowsSource:
        with self._lock:
            if self._source is None:
                scanned = ScanSource(self._index, self._index.lake_filesystem, variant="json").resolve()
                listing = scanned.list_files()
                if listing.table is None and not listing.entries:
                    raise ApiError(404, "the index has no files, and neither has its lake: nothing says what rows have")
                source, schema = fix_schema(scanned)
                session = None if source.table_schema is not None else LookupSession(source)
                self._source = _RowsSource(source, schema, session)
            return self._source

    def _encode_stream(self, rows: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows.combine_chunks())
        return sink.getvalue().to_pybytes()

    def _encode_rows(self, rows: pa.Table, number: int) -> bytes:
        head = encode_json({"version": number, "columns": rows.column_names})
        parts: list[bytes] = []
        size = 0
        for batch in rows.to_batches(max_chunksize=_ROWS_AT_A_TIME):
            if not batch.num_rows:  # a part of no rows would leave a comma that JSON does not allow
                continue
            part = encode_json([dict(zip(rows.column_names, row, strict=True)) for row in plain_rows(batch)])[1:-1]
            size += len(part)
            if size > self._settings.max_answer:
                raise _too_large(self._settings)
            parts.append(part)
        return head[:-1] + b',"rows":[' + b",".join(parts) + b"]}"


class _AnswerLimit:
    """Ends a read that has taken too many rows, bytes or seconds."""

    def __init__(self, settings: Settings, is_stopping: Callable[[], bool]):
        self._settings = settings
        self._is_stopping = is_stopping
        self._rows = self._bytes = 0
        self._end = time.monotonic() + settings.lookup_seconds

    def add(self, rows: pa.Table) -> None:
        """Count rows that were read."""
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows > self._settings.max_rows:
            raise ApiError(422, f"keys: they have more than {self._settings.max_rows:,} rows; get fewer at a time")
        if self._bytes > self._settings.max_answer:
            raise _too_large(self._settings)
        if self._is_stopping() or time.monotonic() > self._end:  # nobody waits for the answer any more
            raise ApiError(503, "the service is stopping, or the request took too long")


def _require_found_by(manifest: IndexManifest, columns: Sequence[str]) -> None:
    """Raise UnknownColumnError unless an index finds keys of these columns."""
    known = [key for key in manifest.columns if not isinstance(key, KeyExpression) or key.function == TUPLE]
    found = (key.columns if isinstance(key, KeyExpression) else (key,) for key in known)
    if not any({*columns}.issuperset(one) for one in found):
        names = ", ".join(known) or "none"
        if columns[0] in manifest.columns:
            problem = f"keys are of columns, not of an expression; columns of the index are: {names}"
        else:
            problem = f"the index has no such column; it has: {names}"
        raise UnknownColumnError(problem, column=columns[0])


def rows_error(error: ParquetBloomError, index: str) -> ApiError:
    """Turn the error of a request for rows into a response; `index` is the path of the index."""
    text = hide_index_path(str(error), index)
    if isinstance(error, UnknownColumnError):
        return ApiError(404, text)
    if leads_outside(error):
        return outside_answer(error)
    return ApiError(422 if isinstance(error, PredicateError) else 500, text)


def _parse_keys(query: GetQuery) -> LookupKeys:
    columns = query.columns
    if not columns or len({*columns}) < len(columns):
        raise ApiError(422, "column: a column, or a list of different ones")
    if len(columns) > MAX_KEY_COLUMNS:
        raise ApiError(422, f"column: {len(columns)} columns are too many; the maximum is {MAX_KEY_COLUMNS}")
    if len(columns) == 1:
        return LookupKeys.parse(columns[0], parse_literals([_only(key, i) for i, key in enumerate(query.keys)], "keys"))
    keys: list[list[object]] = []
    for i, key in enumerate(query.keys):
        if not isinstance(key, list) or len(key) != len(columns):
            raise ApiError(422, f"keys[{i}]: not a list of {len(columns)} values, one for each column")
        keys.append(key)
    parts = {column: parse_literals([key[i] for key in keys], "keys", f"[{i}]") for i, column in enumerate(columns)}
    return LookupKeys.parse(columns, parts)


def _only(key: object, number: int) -> object:
    if not isinstance(key, list):
        return key
    raise ApiError(422, f"keys[{number}]: a list is a key of several columns")


def _too_large(settings: Settings) -> ApiError:
    problem = f"keys: their rows take more than {settings.max_answer:,} bytes; get fewer at a time, or fewer columns"
    return ApiError(422, problem)


def check_lake(index: LakeIndex) -> None:
    """Raise ParquetBloomError if an index has no lake of its own, whose rows could be read."""
    if not index.state.manifest.lake:
        problem = "the index has no lake of its own, so there are no rows to read; create it with --lake, or leave out"
        raise ParquetBloomError(f"{problem} --rows", path=index.path)


def accepts_arrow(accept: Sequence[str]) -> bool:
    """Return whether the values of Accept name the Arrow stream format, and do not prefer JSON.

    What is named with the weight 0 is not acceptable; a range that is not understood counts for nothing.
    """
    weights: dict[str, float] = {}
    for text in (item for value in accept for item in _ITEM.findall(value)):
        name, *parameters = (part.strip() for part in _PARAMETER.findall(text))
        weight = next((part.partition("=")[2].strip() for part in parameters if _WEIGHT_NAME.match(part)), "1")
        if _WEIGHT.fullmatch(weight):
            weights[name.lower()] = float(weight)
    json, arrow = (
        next((weights[kind] for kind in (name, "application/*", "*/*") if kind in weights), 0.0)
        for name in ("application/json", ARROW_STREAM)
    )
    return arrow > 0 and arrow >= json and (ARROW_STREAM in weights or json == 0)

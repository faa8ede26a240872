"""Read what a Delta table's log has of the paths of Variants, which deltalake does not show: their bounds.

In commits they are a text for each file, in checkpoints also columns. Both are read at the first question.

Source: the Delta transaction log protocol, sections "Per-file Statistics" and "Statistics for Variant Columns".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import ParquetBloomError
from ...variant.variant_layout import storage_of
from ..table_snapshot import TableFile
from ..variant_bounds import BoundVariants, split_serialized
from .delta_log import PARSED, Action, read_live_adds, require_same_files
from .delta_vectors import decode_z85

if TYPE_CHECKING:
    from ...util.given_types import FileSystem

_LOWER, _UPPER = "minValues", "maxValues"
_TEXT = "stats"


class ColumnBounds(NamedTuple):
    """Bounds of a Variant column in the files of a table."""

    lower: list[BoundVariants]
    upper: list[BoundVariants]


def read_bounds(
    root: str,
    version: int,
    filesystem: FileSystem | None,
    files: Sequence[TableFile],
    columns: Iterable[tuple[str, ...]],
) -> dict[tuple[str, ...], ColumnBounds]:
    """Return {column: its bounds} of Variant columns, by their paths in the log; nothing if the log cannot be read.

    Parameters
    ----------
    root, version, filesystem : as of `delta_log.read_live_adds`.
    files : of the version, by deltalake.
    """
    found: dict[str, Action] = {}
    with suppress(ParquetBloomError):  # as where commits were cleaned up since: nothing is known then, and all is read
        adds = read_live_adds(root, version, filesystem, (_TEXT, PARSED))
        found = require_same_files(adds, files, root)
    if not found:
        return {}
    actions = [found[file.path] for file in files]
    texts = [_parse(action) for action in actions]
    parsed = [None if _TEXT in action else action.get(PARSED) for action in actions]
    return {
        column: ColumnBounds(*([*_find(texts, parsed, (kind, *column))] for kind in (_LOWER, _UPPER)))
        for column in columns
    }


def _parse(action: Action) -> object:
    """Return the statistics that an add action has as a text; None if there are none."""
    text = action.get(_TEXT)
    if text is None:
        return None
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None


def _find(
    texts: Sequence[object], parsed: Sequence[pa.StructArray | None], path: Sequence[str]
) -> Iterator[BoundVariants]:
    """Yield the Variants at a path of the statistics of files: those of texts, and those of columns by their types."""
    yield split_serialized([_decode(_descend(text, path)) for text in texts])
    by_type: dict[pa.DataType, list[tuple[int, pa.StructArray]]] = {}
    for number, row in enumerate(parsed):
        found = None if row is None else _descend_row(row, path)
        if found is not None:
            by_type.setdefault(found.type, []).append((number, found))
    for rows in by_type.values():
        numbers, arrays = zip(*rows, strict=True)
        yield BoundVariants(np.array(numbers, np.intp), pa.concat_arrays(arrays))


def _descend(value: object, path: Sequence[str]) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _decode(value: object) -> bytes | None:
    """Return a serialized Variant; an empty one, which is none, for what is damaged."""
    if value is None:
        return None
    with suppress(ParquetBloomError):
        return decode_z85(value) if isinstance(value, str) else b""
    return b""


def _descend_row(row: pa.StructArray, path: Sequence[str]) -> pa.StructArray | None:
    """Return the struct at a path of the only row of an array; None if there is none, or if it is null."""
    for name in path:
        if not pa.types.is_struct(row.type) or row.null_count or row.type.get_field_index(name) < 0:
            return None
        row = storage_of(row.field(name))
    return None if row.null_count or not pa.types.is_struct(row.type) else row

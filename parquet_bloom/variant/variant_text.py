"""Variants as JSON text."""

from __future__ import annotations

import pyarrow as pa

from .variant_layout import chunks_of, concatenate, make_text_array, open_variant
from .variant_path import VariantPath


def to_json(
    column: pa.Array | pa.ChunkedArray, path: VariantPath | None = None, *, name: str | None = None
) -> pa.Array:
    """Return a Variant column, or what is at a path in it, as JSON text, as Spark's `to_json` writes it.

    Timestamps with a zone are written in UTC, floating-point numbers as Java does from version 19 on.

    Parameters
    ----------
    column : a struct or extension array of `metadata`, `value` and, where it is shredded, `typed_value`.
    path : of a value within the Variant; None for the whole.
    name : of the column, for errors.

    Returns
    -------
    large_string: null for SQL's NULL and where nothing is at the path, the text `null` for a Variant null.

    Raises
    ------
    MalformedVariantError
        A row, or the column's type, does not conform to the format.
    """
    chunks = []
    for first_row, chunk in chunks_of(column):
        reader = open_variant(chunk, name)
        parts = reader.to_json(path.steps if path else [], first_row)
        chunks.append(make_text_array(len(chunk), *parts, pa.large_string()))
    return concatenate(chunks, pa.large_string())

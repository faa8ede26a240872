"""The Arrow schema of a Parquet footer, without `pyarrow.parquet`, which imports the file systems of all clouds."""

from __future__ import annotations

import pyarrow as pa


def read_arrow_schema(data: bytes, int96_unit: str | None) -> pa.Schema | None:
    """Return the schema that `pyarrow.parquet.ParquetFile` gives the rows of a file.

    Parameters
    ----------
    data : a Parquet file, of which the footer is read.
    int96_unit : unit of timestamps of type INT96; None for pyarrow's default.

    Returns
    -------
    None where that depends on pyarrow's version: whether types of extensions are the default does.
    """
    try:
        from pyarrow._parquet import ParquetReader

        schemas = []
        for has_extensions in (True, False):
            reader = ParquetReader()
            reader.open(
                pa.BufferReader(data), coerce_int96_timestamp_unit=int96_unit, arrow_extensions_enabled=has_extensions
            )
            schemas.append(reader.schema_arrow)
            if not any(map(_has_extension, schemas[0].types)):
                return schemas[0]
    except (ImportError, TypeError):  # another version of pyarrow
        return None
    extended, plain = schemas
    return plain if plain.equals(extended, check_metadata=True) else None


def _has_extension(arrow_type: pa.DataType) -> bool:
    """Return whether a type is of an extension, or may contain such a type."""
    if pa.types.is_dictionary(arrow_type) or pa.types.is_run_end_encoded(arrow_type):
        return _has_extension(arrow_type.value_type)
    inner = (arrow_type.field(number).type for number in range(arrow_type.num_fields))
    return isinstance(arrow_type, pa.BaseExtensionType) or any(map(_has_extension, inner))

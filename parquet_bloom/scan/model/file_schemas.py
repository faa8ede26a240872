"""The Arrow schemas of files, and their unified schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from ...errors import (
    EncryptedFileError,
    ParquetBloomError,
    UnknownColumnError,
    UnreadableColumnError,
    first_line,
    shortened,
)
from ...file.bloom_file import BloomFile
from ...metadata.footer import MAGIC, TAIL_BYTES
from ...metadata.footer_rewrite import drop_later_groups, find_later_groups
from ...util.arrow_values import empty_table
from ...util.lazy import late_module
from ...util.threads import in_order, processors
from ...variant.variant_text import to_json
from ...variant.variant_type import loses_shredded, may_be_variant, show_json

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = late_module("pyarrow.parquet")


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
        from pyarrow._parquet import ParquetReader  # a private module, much faster to import than pyarrow.parquet
    except ImportError:  # another version of pyarrow
        return None
    if "arrow_extensions_enabled" not in (ParquetReader.open.__doc__ or ""):  # it begins with the signature
        return None
    schemas = []
    for has_extensions in (True, False):
        reader = ParquetReader()
        reader.open(
            pa.BufferReader(data), coerce_int96_timestamp_unit=int96_unit, arrow_extensions_enabled=has_extensions
        )
        schemas.append(reader.schema_arrow)
        if not any(map(_has_extension, schemas[0].types)):
            return schemas[0]
    extended, plain = schemas
    return plain if plain.equals(extended, check_metadata=True) else None


def _has_extension(arrow_type: pa.DataType) -> bool:
    """Return whether a type is of an extension, or may contain such a type."""
    if pa.types.is_dictionary(arrow_type) or pa.types.is_run_end_encoded(arrow_type):
        return _has_extension(arrow_type.value_type)
    inner = (arrow_type.field(number).type for number in range(arrow_type.num_fields))
    return isinstance(arrow_type, pa.BaseExtensionType) or any(map(_has_extension, inner))


T = TypeVar("T")
R = TypeVar("R")

_LONGEST_CAUSE = 100  # characters of a cause that has types of Variants in it
_MAX_NAMES = 5  # encrypted columns listed in an error
_THREADS = 8
REMOTE_THREADS = 64  # reading footers from remote storage is bound by latency, not bandwidth
_MAX_SCHEMAS = 64  # that files share
_MAX_SELECTIONS = 64  # of columns of a schema
_FOOTER_READ = 1 << 16  # bytes that pyarrow reads of a file's end, before it knows how long the footer is
_SMALL_FOOTER = 1 << 18  # bytes of one that is read twice rather than by a module that takes 15 ms to import

_Schemas = dict[tuple[str, ...] | None, pa.Schema]
_SCHEMAS: dict[tuple[object, ...], _Schemas] = {}


class _HasPath(Protocol):
    @property
    def path(self) -> str: ...


@contextmanager
def reading(file: _HasPath) -> Iterator[None]:
    """Add the file's path to every error, and convert pyarrow's errors to this package's."""
    try:
        yield
    except ParquetBloomError as error:
        error.path = error.path or file.path
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = first_line(error)
        if "decrypt" in reason and isinstance(file, BloomFile):
            raise _make_encrypted_error(file) from error
        raise UnreadableColumnError(f"cannot be read: {reason}", path=file.path) from error


def _make_encrypted_error(file: BloomFile) -> EncryptedFileError:
    """Return the error for reading an encrypted column of a file."""
    names = [f"'{leaf.name}'" for leaf in file.footer.encrypted_leaves]
    listed = ", ".join(names[:_MAX_NAMES])
    more = f" and {len(names) - _MAX_NAMES} others" if len(names) > _MAX_NAMES else ""
    return EncryptedFileError(f"encrypted columns cannot be read, only the others: {listed}{more}", path=file.path)


def arrow_metadata(file: BloomFile) -> pq.FileMetaData:
    """Return pyarrow's metadata of a file, without reading the footer again."""
    return _open_footer(file).metadata


def open_parquet_file(file: BloomFile) -> pq.ParquetFile:
    """Open a file with pyarrow, without reading the footer again; of a local file, threads may read row groups."""
    # Reading ahead takes threads that Arrow has few of, and that its scanners wait in for the rows of this very file.
    unit = file.cached.int96_unit
    # pyarrow itself reads the footer of a local file in less time than it takes to give it one.
    is_given = file.source.path is None or file.cached.original is not None or bool(find_later_groups(file.footer))
    metadata = arrow_metadata(file) if is_given else None
    if not is_given:
        length = min(file.source.size, max(_FOOTER_READ, len(file.footer.data) + TAIL_BYTES))
        file.source.count(1 + (length > _FOOTER_READ), length)
    return pq.ParquetFile(
        file.source.arrow_file(), metadata=metadata, pre_buffer=False, coerce_int96_timestamp_unit=unit
    )


def arrow_schema(file: BloomFile, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the schema that pyarrow gives a file's rows, or some columns of them: top-level ones or dotted leaves.

    It is made from the footer and cached with it; files with the same schema and metadata share it.
    """
    schemas: _Schemas | None = file.cached.derived.get("arrow_schemas")
    if schemas is None:
        shared = file.cached.int96_unit, *file.footer.schema_key
        schemas = _SCHEMAS.get(shared)
        if schemas is None:
            schemas = {None: _read_arrow_schema(file)}
            if len(_SCHEMAS) >= _MAX_SCHEMAS:
                _SCHEMAS.clear()
            _SCHEMAS[shared] = schemas
        file.cached.derived["arrow_schemas"] = schemas
    if columns is None:
        return schemas[None]
    key = tuple(columns)
    if key not in schemas:
        top_level = schemas[None].names
        known = {*top_level}
        for name in columns:
            if name not in known and name.split(".")[0] not in known:
                raise UnknownColumnError("no such column", path=file.path, column=name)
        if len(schemas) > _MAX_SELECTIONS:
            schemas = {None: schemas[None]}
        is_plain = not any("." in name for name in top_level) and len(known) == len(top_level)
        if is_plain and {*key} <= known and len({*key}) == len(key):
            schemas[key] = empty_table(schemas[None]).select(list(columns)).schema
        else:
            schemas[key] = _open_footer(file).read_row_groups([], list(columns), use_threads=False).schema
    return schemas[key]


def _read_arrow_schema(file: BloomFile) -> pa.Schema:
    schema, data = None, file.footer.data_of_schema
    if len(data) <= _SMALL_FOOTER and not find_later_groups(file.footer):
        schema = read_arrow_schema(_make_footer_file(data), file.cached.int96_unit)
    return _open_footer(file).schema_arrow if schema is None else schema


def _open_footer(file: BloomFile) -> pq.ParquetFile:
    """Open the footer alone with pyarrow."""
    data = pa.BufferReader(_make_footer_file(drop_later_groups(file.footer)))
    return pq.ParquetFile(data, coerce_int96_timestamp_unit=file.cached.int96_unit)


def _make_footer_file(data: bytes) -> bytes:
    """Return a file of a footer alone."""
    return b"".join((MAGIC, data, len(data).to_bytes(TAIL_BYTES - len(MAGIC), "little"), MAGIC))


def map_in_threads(function: Callable[[T], R], files: Sequence[T], *, remote: bool = False) -> list[R]:
    """Apply a function to each file in several threads; remote files get more, since they are waited for."""
    threads = min(REMOTE_THREADS if remote else min(_THREADS, 4 * processors()), len(files))
    if threads < 2:
        return [function(file) for file in files]
    with in_order(function, files, threads) as results:
        return list(results)


def unify_schemas(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the schema of the rows of all files together, as `pyarrow.concat_tables` promotes them.

    A column that is a dictionary in some files only, such as a category of pandas, is not one in the result.

    Raises
    ------
    UnreadableColumnError
        The types of a column in two files have no common type, or a file has two columns of one name.
    """
    distinct = list(dict.fromkeys(schemas))  # thousands of files share a few
    if len(distinct) == 1:
        return distinct[0]
    try:
        unified = pa.unify_schemas(_decode_mixed_dictionaries(distinct), promote_options="permissive")
        return _make_missing_nullable(unified, distinct)
    except pa.ArrowException as error:
        raise make_mismatch_error(error) from error


def _make_missing_nullable(unified: pa.Schema, schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Make columns nullable that some schemas do not have: they are null in the rows of those files."""
    names = [{*schema.names} for schema in schemas]
    fields = [
        field.with_nullable(True) if not field.nullable and any(field.name not in known for known in names) else field
        for field in unified
    ]
    return pa.schema(fields, unified.metadata)


def _decode_mixed_dictionaries(schemas: Sequence[pa.Schema]) -> list[pa.Schema]:
    """Replace dictionary types by their value types in columns that are not dictionaries in every schema."""
    is_dictionary = pa.types.is_dictionary
    plain = {field.name for schema in schemas for field in schema if not is_dictionary(field.type)}
    if not any(is_dictionary(field.type) and field.name in plain for schema in schemas for field in schema):
        return list(schemas)
    return [
        pa.schema([_decode_field(field) if field.name in plain else field for field in schema], schema.metadata)
        for schema in schemas
    ]


def _decode_field(field: pa.Field) -> pa.Field:
    """Return a field with the type of its dictionary's values."""
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def make_mismatch_error(error: Exception) -> UnreadableColumnError:
    """Return the error for files whose columns have no common type."""
    cause = first_line(error)
    way_out = "leave the column out"
    if "metadata: binary" in cause or "typed_value" in cause:
        cause, way_out = shortened(cause, _LONGEST_CAUSE), f"ask for Variants as JSON (variant='json'), or {way_out}"
    return UnreadableColumnError(f"the files' rows do not fit into one table: {cause}; {way_out}")


def promote_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert a file's rows to the schema of all files; columns that the file does not have are null."""
    if not len(schema):
        return table.select([])  # of so many rows
    if table.schema.equals(schema):
        return table.replace_schema_metadata(schema.metadata)
    table = _show_variants(table, schema)
    _require_whole(table, schema)
    try:
        fields = [
            field if pa.types.is_dictionary(schema.field(field.name).type) else _decode_field(field)
            for field in table.schema
        ]
        columns = [
            column if column.type.equals(field.type) else column.cast(field.type)
            for column, field in zip(table.columns, fields, strict=True)
        ]
        if columns:
            table = pa.Table.from_arrays(columns, schema=pa.schema(fields, table.schema.metadata))
        return pa.concat_tables([empty_table(schema), table], promote_options="permissive").cast(schema)
    except (pa.ArrowException, ValueError) as error:  # ValueError: nulls where there must be none
        raise make_mismatch_error(error) from error


def _show_variants(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with JSON in place of the Variants that a schema shows so."""
    for position, (stored, field) in enumerate(zip(table.schema, show_json(table.schema), strict=True)):
        if stored.type is field.type:
            continue
        wanted = pa.schema([schema.field(field.name)])
        if show_json(wanted).equals(wanted):  # it has no Variants
            table = table.set_column(position, field, fit_column(table.column(position), field.type))
    return table


def _require_whole(rows: pa.Table, schema: pa.Schema) -> None:
    """Raise UnreadableColumnError if Variants in some rows have parts that a schema has no place for."""
    for field in schema if rows.num_rows else ():
        i = rows.schema.get_field_index(field.name)
        if i >= 0 and loses_shredded(rows.schema.field(i).type, field.type):
            problem = "its Variants are shredded into columns, differently from file to file"
            way_out = "ask for them as JSON (variant='json'), or leave the column out"
            raise UnreadableColumnError(f"{problem}: {way_out}", column=field.name)


def fit_table(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of a schema; columns and fields that they lack are null, others are left out.

    Raises
    ------
    UnreadableColumnError
        Values of a column do not fit into the table's type, or are Variants that are shredded.
    """
    if not len(schema):
        return rows.select([])  # of so many rows
    if rows.schema.equals(schema):
        return rows.replace_schema_metadata(schema.metadata)
    _require_whole(rows, schema)
    columns = []
    for field in schema:
        i = rows.schema.get_field_index(field.name)
        try:
            column = pa.nulls(rows.num_rows, field.type) if i < 0 else fit_column(rows.column(i), field.type)
        except pa.ArrowException as error:
            stored = rows.schema.field(i).type
            problem = f"its {stored} values do not fit into the table's {field.type}: {first_line(error)}"
            raise UnreadableColumnError(problem, column=field.name) from error
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def fit_column(column: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.ChunkedArray:
    """Return a column as another type."""
    if column.type.equals(arrow_type):
        return column
    return pa.chunked_array([_fit(chunk, arrow_type) for chunk in column.chunks], arrow_type)


def _fit(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    types, stored = pa.types, array.type
    if stored.equals(arrow_type):
        return array
    if types.is_dictionary(stored):
        return _fit(array.dictionary_decode(), arrow_type)
    if isinstance(stored, pa.BaseExtensionType) and types.is_struct(stored.storage_type):
        array = array.storage  # Variants, to who registers their type
    if types.is_struct(arrow_type) and types.is_struct(array.type):
        return _fit_struct(array, arrow_type)
    if types.is_large_string(arrow_type) and may_be_variant(array.type):
        return to_json(array)
    if types.is_map(arrow_type) and types.is_map(stored):
        keys, items = _fit(array.keys, arrow_type.key_type), _fit(array.items, arrow_type.item_type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[arrow_type.key_field, arrow_type.item_field])
        return replace_values(array, arrow_type, entries)
    if _is_list(arrow_type) and _is_list(stored):
        if types.is_large_list(arrow_type) != types.is_large_list(stored):
            wide = types.is_large_list(arrow_type)
            array = array.cast(pa.large_list(stored.value_field) if wide else pa.list_(stored.value_field))
        return replace_values(array, arrow_type, _fit(array.values, arrow_type.value_type))
    return array.cast(arrow_type)


def _is_list(arrow_type: pa.DataType) -> bool:
    return pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type)


def _fit_struct(array: pa.StructArray, arrow_type: pa.StructType) -> pa.StructArray:
    fields, members = [*arrow_type], array.flatten()
    arrays = []
    for field in fields:
        i = array.type.get_field_index(field.name)
        arrays.append(pa.nulls(len(array), field.type) if i < 0 else _fit(members[i], field.type))
    if not fields:
        return array.cast(arrow_type)
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=array.is_null())


def replace_values(array: pa.Array, arrow_type: pa.DataType, values: pa.Array) -> pa.Array:
    """Return a list or map array with other values at the same positions."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(arrow_type, len(array), [validity, offsets], -1, array.offset, [values])

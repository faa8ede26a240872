"""The Arrow schemas of files, and the one that all of them fit into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import (
    EncryptedFileError,
    ParquetBloomError,
    UnknownColumnError,
    UnreadableColumnError,
    first_line,
)
from ...file.reader import BloomFile
from ...metadata.footer import MAGIC, TAIL_BYTES
from ...util.threads import in_order, processors

T = TypeVar("T")
R = TypeVar("R")

_NAMED = 5  # encrypted columns that an error lists
_THREADS = 8
REMOTE_THREADS = 64  # footers on remote storage come late, not slowly


class _Pathed(Protocol):
    @property
    def path(self) -> str: ...


@contextmanager
def reading(file: _Pathed) -> Iterator[None]:
    """Name the file in every error, and give pyarrow's errors their place among ours."""
    try:
        yield
    except ParquetBloomError as error:
        error.path = error.path or file.path
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = first_line(error)
        if "decrypt" in reason and isinstance(file, BloomFile):
            raise _encrypted(file) from error
        raise UnreadableColumnError(f"cannot be read: {reason}", path=file.path) from error


def _encrypted(file: BloomFile) -> EncryptedFileError:
    """The error of a file one of whose encrypted columns was to be read."""
    names = [f"'{leaf.name}'" for leaf in file.footer.encrypted_leaves]
    told = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} others" if len(names) > _NAMED else "")
    return EncryptedFileError(f"encrypted columns cannot be read, only the others: {told}", path=file.path)


def metadata_of(file: BloomFile) -> pq.FileMetaData:
    """What pyarrow makes of a file's footer, which is not read again for it."""
    return _footer_reader(file).metadata


def reader_of(file: BloomFile) -> pq.ParquetFile:
    """A file for pyarrow to read, which does not read the footer again for it."""
    return pq.ParquetFile(file.source.arrow_file(), metadata=metadata_of(file))


def schema_in(file: BloomFile) -> pa.Schema:
    """The schema that pyarrow gives a file's rows. Made of the footer that was read, and kept with it."""
    derived = file.cached.derived
    if "arrow_schema" not in derived:
        derived["arrow_schema"] = _footer_reader(file).schema_arrow
    schema: pa.Schema = derived["arrow_schema"]
    return schema


def chosen(file: BloomFile, columns: Sequence[str] | None) -> pa.Schema:
    """The schema of chosen columns, top-level ones or dotted leaves; None for all."""
    schema = schema_in(file)
    if columns is None:
        return schema
    for name in columns:
        if name not in schema.names and name.split(".")[0] not in schema.names:
            raise UnknownColumnError("no such column", path=file.path, column=name)
    return _footer_reader(file).read_row_groups([], list(columns)).schema


def _footer_reader(file: BloomFile) -> pq.ParquetFile:
    """A reader by pyarrow of the footer alone."""
    data = file.footer.data
    return pq.ParquetFile(
        pa.BufferReader(b"".join((MAGIC, data, len(data).to_bytes(TAIL_BYTES - len(MAGIC), "little"), MAGIC)))
    )


def in_threads(look: Callable[[T], R], files: Sequence[T], *, remote: bool = False) -> list[R]:
    """What a look at each file finds, by several threads; by many where files are remote, and waited for."""
    threads = min(REMOTE_THREADS if remote else min(_THREADS, 4 * processors()), len(files))
    if threads < 2:
        return [look(file) for file in files]
    with in_order(look, files, threads) as results:
        return list(results)


def unified(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """The schema of rows of all files together, as `pyarrow.concat_tables` promotes them.

    A column that only some files have as a dictionary, such as a category of pandas, is none in it.

    Raises
    ------
    UnreadableColumnError
        Two files' types of a column have none in common, or a file has two columns of one name.
    """
    distinct = list(dict.fromkeys(schemas))  # thousands of files have few
    if len(distinct) == 1:
        return distinct[0]
    try:
        return pa.unify_schemas(_in_dictionaries_everywhere(distinct), promote_options="permissive")
    except pa.ArrowException as error:
        raise misfit(error) from error


def _in_dictionaries_everywhere(schemas: Sequence[pa.Schema]) -> list[pa.Schema]:
    """The schemas, without the dictionaries of columns that are none in others."""
    is_dictionary = pa.types.is_dictionary
    plain = {field.name for schema in schemas for field in schema if not is_dictionary(field.type)}
    if not any(is_dictionary(field.type) and field.name in plain for schema in schemas for field in schema):
        return list(schemas)
    return [
        pa.schema([_decoded(field) if field.name in plain else field for field in schema], schema.metadata)
        for schema in schemas
    ]


def _decoded(field: pa.Field) -> pa.Field:
    """The field of the values themselves."""
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def misfit(error: Exception) -> UnreadableColumnError:
    """The error of files whose columns have no type in common."""
    problem = f"the files' rows do not fit into one table: {first_line(error)}; leave the column out"
    return UnreadableColumnError(problem)


def promoted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A file's rows in the schema of all files: what the file does not have is null."""
    if table.schema.equals(schema):
        return table.replace_schema_metadata(schema.metadata)
    try:
        for place, field in enumerate(table.schema):
            plain = _decoded(field)
            if plain is not field and not pa.types.is_dictionary(schema.field(field.name).type):
                table = table.set_column(place, plain, table.column(place).cast(plain.type))
        return pa.concat_tables([schema.empty_table(), table], promote_options="permissive").cast(schema)
    except pa.ArrowException as error:
        raise misfit(error) from error

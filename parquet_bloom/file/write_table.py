"""`write_table`: write a table with filters. pyarrow writes the data, and filters are inserted before its footer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import FilterTypeError, MissingFilterError, ParquetBloomError, UnsupportedTypeError
from ..hashing.arrow_keys import to_storage
from ..metadata.footer import TAIL_BYTES, Footer, find_footer
from ..storage import Rewrite, create, resolve_filesystem
from .embed_filters import EmbedReport, RewriteOptions, embed_file, write_filter
from .file_rewrite import refuse_managed, refuse_uneditable, write_footer
from .filter_builder import Columns, FilterBuilder, FilterOptions, parse_columns, plan_columns

if TYPE_CHECKING:
    from ..util.given_types import FilePath, FileSystem


def write_table(
    table: pa.Table,
    path: FilePath,
    columns: Columns,
    *,
    fpp: float = 0.01,
    power_of_two: bool = True,
    row_group_size: int | None = None,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    **pyarrow_options: object,
) -> EmbedReport:
    """Write a Parquet file whose chosen columns have Bloom filters, sized from the data.

    Parameters
    ----------
    table : the table to write.
    path : the file; it is created, or replaced, atomically.
    columns, fpp, power_of_two : as in `embed`.
    row_group_size : most rows per row group.
    filesystem, storage_options : as in `prune`.
    **pyarrow_options : options of `pyarrow.parquet.ParquetWriter`.

    Raises
    ------
    ParquetBloomError
        As in `embed`; no file is written.

    Examples
    --------
    >>> import pyarrow as pa
    >>> report = parquet_bloom.write_table(pa.table({"id": [1, 2, 3]}), "new.parquet", ["id"])
    >>> [(filter.column, filter.ndv) for filter in report.filters]
    [('id', 3)]
    """
    requested = parse_columns(columns, FilterOptions(fpp, None, power_of_two))
    filesystem = resolve_filesystem(filesystem, storage_options)
    refuse_managed(path, filesystem)
    return write_file(table, path, requested, filesystem, row_group_size, **pyarrow_options)


def write_file(
    table: pa.Table,
    path: FilePath,
    requested: dict[str, FilterOptions],
    filesystem: FileSystem | None,
    row_group_size: int | None = None,
    **pyarrow_options: object,
) -> EmbedReport:
    """Write a file as `write_table` does, also one that its caller will commit to the table in whose folder it lies.

    Parameters
    ----------
    requested : the columns that get filters.
    filesystem : as `storage.resolve_filesystem` returns it.
    """
    report = EmbedReport(str(path), str(path))
    try:
        with create(path, filesystem) as new:
            tail = _write_data(new, table, row_group_size, dict(pyarrow_options))
            file_size = new.tell() + len(tail)
            start, length = find_footer(tail, file_size)
            inside = len(tail) - TAIL_BYTES - length
            new.write(tail[:inside])  # page indexes
            footer = Footer(tail[inside:-TAIL_BYTES], start)
            _write_filters(new, table, footer, requested, report)
            report.old_size, report.new_size, report.changed = file_size, new.tell(), True
            new.commit()
    except FilterTypeError:
        # The options made pyarrow store different values (coarser timestamps, for example): read them back.
        _write_plain(table, path, row_group_size, filesystem, pyarrow_options)
        return embed_file(path, requested, RewriteOptions(filesystem=filesystem))
    except ParquetBloomError as error:
        error.path = error.path or str(path)
        raise
    return report


class TableSink:
    """The file object that pyarrow writes to; the end of the file can be buffered instead of written."""

    closed = False

    def __init__(self, new: Rewrite):
        self._new = new
        self._buffer: bytearray | None = None

    def write(self, data: Any) -> int:
        if self._buffer is None:
            return self._new.write(data)
        self._buffer += data
        return len(data)

    def tell(self) -> int:
        return self._new.tell() + len(self._buffer or b"")

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def start_buffering(self) -> None:
        """Buffer all further writes."""
        self._buffer = bytearray()

    @property
    def buffered(self) -> bytes:
        return bytes(self._buffer or b"")


def _write_data(new: Rewrite, table: pa.Table, row_group_size: int | None, options: dict[str, object]) -> bytes:
    """Write row groups; return what pyarrow writes when it closes the file: page indexes and footer."""
    if options.get("encryption_properties") is not None:
        raise UnsupportedTypeError("filters cannot be written into encrypted files")
    sink = TableSink(new)
    try:
        with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), table.schema, **options) as writer:
            writer.write_table(table, row_group_size)
            sink.start_buffering()
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, ParquetBloomError):
            raise
        raise ParquetBloomError(f"pyarrow cannot write the table: {error}") from error
    return sink.buffered


def _write_filters(
    new: Rewrite, table: pa.Table, footer: Footer, requested: dict[str, FilterOptions], report: EmbedReport
) -> None:
    plans = plan_columns(footer.leaves, requested, report.path)
    refuse_uneditable(footer, [plan.leaf for plan in plans])
    builder = FilterBuilder()
    locations: dict[tuple[int, int], tuple[int, int] | None] = {}
    row = 0
    for row_group in range(footer.num_row_groups):
        num_rows = footer.num_rows_of(row_group)
        rows = table.slice(row, num_rows)
        row += num_rows
        for plan in plans if num_rows else ():
            values = (to_storage(array, plan.column_type) for array in _leaf_arrays(rows, plan.leaf.index))
            built = builder.build(values, plan.column_type, plan.options, num_rows)
            locations[row_group, plan.leaf.index] = write_filter(new, built, footer, row_group, plan.leaf, report)
    if row != table.num_rows:
        raise MissingFilterError(f"pyarrow wrote {row} of {table.num_rows} rows")
    write_footer(new, footer, locations)


def _write_plain(
    table: pa.Table,
    path: FilePath,
    row_group_size: int | None,
    filesystem: FileSystem | None,
    options: dict[str, object],
) -> None:
    with create(path, filesystem) as new:
        tail = _write_data(new, table, row_group_size, options)
        new.write(tail)
        new.commit()


def _leaf_arrays(table: pa.Table, index: int) -> Iterator[pa.Array]:
    """Yield the chunks of a table's leaf: Arrow and Parquet both number leaves depth first."""
    for column in table.columns:
        count = _count_leaves(column.type)
        if index < count:
            for chunk in column.chunks:
                yield _find_leaf_array(chunk, index)
            return
        index -= count
    raise FilterTypeError("the table has fewer leaves than its file")


def _count_leaves(arrow_type: pa.DataType) -> int:
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _count_leaves(arrow_type.storage_type)
    if not pa.types.is_nested(arrow_type):
        return 1
    return sum(_count_leaves(arrow_type.field(i).type) for i in range(arrow_type.num_fields))


def _find_leaf_array(array: pa.Array, index: int) -> pa.Array:
    """Return the values of leaf number `index` below an array; those under null parents are null or left out."""
    while pa.types.is_nested(array.type) or isinstance(array, pa.ExtensionArray):
        if isinstance(array, pa.ExtensionArray):
            if not pa.types.is_nested(array.type.storage_type):
                break
            children = [array.storage]
        elif pa.types.is_struct(array.type):
            children = array.flatten()
        elif pa.types.is_map(array.type):
            # Null maps may span entries that no reader sees; inserting these does no harm.
            first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
            children = [array.keys.slice(first, last - first), array.items.slice(first, last - first)]
        else:
            children = [array.flatten()]
        for child in children:
            count = _count_leaves(child.type)
            if index < count:
                array = child
                break
            index -= count
    return array

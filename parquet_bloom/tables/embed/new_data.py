"""Data files with new rows in an Iceberg table: which partition each row belongs to, and the manifest of the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...util.arrow_values import keep
from ...util.lazy import late_module
from ..iceberg.file_metrics import FileMetrics
from ..iceberg.iceberg_deletes import select_field

if TYPE_CHECKING:
    import pyiceberg.io.pyarrow as arrow_io
    import pyiceberg.manifest as iceberg_manifests
    import pyiceberg.partitioning as partitioning
    import pyiceberg.transforms as transforms
    import pyiceberg.typedef as typedef
    from pyiceberg.io import OutputFile
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as PyicebergTable
    from pyiceberg.typedef import Record
else:
    arrow_io = late_module("pyiceberg.io.pyarrow")
    iceberg_manifests, partitioning = late_module("pyiceberg.manifest"), late_module("pyiceberg.partitioning")
    transforms, typedef = late_module("pyiceberg.transforms"), late_module("pyiceberg.typedef")

_HIGHEST_MANIFEST = 2  # of the format's versions; later tables may have such manifests


class NewDataFile(NamedTuple):
    """A data file with new rows.

    Attributes
    ----------
    path : as the table's metadata names files.
    partition : by the table's current spec, pyiceberg's.
    """

    path: str
    size: int
    metrics: FileMetrics
    partition: Record


class RowsOfPartition(NamedTuple):
    """New rows of one partition.

    Attributes
    ----------
    partition : by the table's current spec, pyiceberg's.
    path : where a file of them is to be, as the table's metadata names files.
    rows : in the order in which they were given, with the field ids that the file has to have.
    """

    partition: Record
    path: str
    rows: pa.Table


def split_by_partition(table: PyicebergTable, rows: pa.Table) -> Iterator[RowsOfPartition]:
    """Yield rows by the partitions of a table.

    Parameters
    ----------
    table : pyiceberg's.
    rows : with the table's columns, in their order.

    Raises
    ------
    ParquetBloomError
        The table is partitioned by a column that it has not.
    pa.ArrowException, ValueError
        The rows have other columns, or values that do not fit into their types.
    """
    spec, schema = table.spec(), table.schema()
    rows = rows.cast(arrow_io.schema_to_pyarrow(schema))  # with field ids
    codes = np.zeros(len(rows), np.int64)
    columns = []
    for field in spec.fields:
        values, numbers = _transform(field, schema, rows)
        columns.append((values, numbers))
        _, codes = np.unique(codes * (len(values) + 1) + numbers, return_inverse=True)
    _, firsts = np.unique(codes, return_index=True)
    for code, first in enumerate(firsts.tolist()):
        partition = typedef.Record(*(values[numbers[first]] for values, numbers in columns))
        folder = f"{spec.partition_to_path(partition, schema)}/" if columns else ""
        name = f"{folder}00000-0-{uuid4()}-00001.parquet"
        chosen = rows if len(firsts) == 1 else keep(rows, pa.array(codes == code))
        yield RowsOfPartition(partition, table.location_provider().new_data_location(name), chosen)


def _transform(field: PartitionField, schema: Schema, rows: pa.Table) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the values of a partition field, and the number of each row's among them."""
    if isinstance(field.transform, transforms.VoidTransform):
        return [None], np.zeros(len(rows), np.int64)
    name = schema.find_column_name(field.source_id)
    if name is None:
        raise ParquetBloomError(f"its partitions are of a column of field id {field.source_id}, which it has not")
    column = select_field(rows, tuple(name.split("."))).combine_chunks()
    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    is_plain = not isinstance(array.type, pa.BaseExtensionType)  # UUIDs are not
    encoded = (array if is_plain else array.storage).dictionary_encode(null_encoding="encode")
    distinct = encoded.dictionary if is_plain else pa.ExtensionArray.from_storage(array.type, encoded.dictionary)
    transform = field.transform.transform(schema.find_type(field.source_id))
    values: list[Any] = []
    known: dict[str, int] = {}
    numbers = []
    for value in distinct.to_pylist():
        found = transform(partitioning.partition_record_value(field, value, schema))
        number = known.setdefault(repr(found), len(values))
        if number == len(values):
            values.append(found)
        numbers.append(number)
    return values, np.array(numbers, np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]


def write_data_manifest(
    table: PyicebergTable,
    output: OutputFile,
    snapshot_id: int,
    files: Sequence[NewDataFile],
) -> int:
    """Write a manifest of data files that a snapshot adds, by the table's current spec; return its number of bytes.

    Parameters
    ----------
    table, output : pyiceberg's.
    """
    spec = table.spec()
    version = min(table.metadata.format_version, _HIGHEST_MANIFEST)
    with iceberg_manifests.write_manifest(version, spec, table.schema(), output, snapshot_id, "deflate") as writer:
        for path, size, metrics, partition in files:
            data_file = iceberg_manifests.DataFile.from_args(
                content=iceberg_manifests.DataFileContent.DATA,
                file_path=path,
                file_format=iceberg_manifests.FileFormat.PARQUET,
                partition=partition,
                record_count=metrics.num_rows,
                file_size_in_bytes=size,
                column_sizes=metrics.sizes,
                value_counts=metrics.value_counts,
                null_value_counts=metrics.null_counts,
                nan_value_counts={},
                lower_bounds=metrics.lower,
                upper_bounds=metrics.upper,
                key_metadata=None,
                split_offsets=None,
                equality_ids=None,
                sort_order_id=None,
                spec_id=spec.spec_id,
            )
            status = iceberg_manifests.ManifestEntryStatus.ADDED
            entry = iceberg_manifests.ManifestEntry.from_args(
                status=status, snapshot_id=snapshot_id, sequence_number=None, data_file=data_file
            )
            writer.add_entry(entry)
    return len(output)


def write_empty_list(output: OutputFile, version: int, snapshot_id: int, sequence: int) -> None:
    """Write a list of no manifests for the first snapshot of a table of a format version; `output` is pyiceberg's."""
    version = min(version, _HIGHEST_MANIFEST)
    with iceberg_manifests.write_manifest_list(version, output, snapshot_id, None, sequence, "deflate"):
        pass

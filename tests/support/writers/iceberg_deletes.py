"""Rows of an Iceberg table deleted by a file of their positions, as Spark and Flink do where a table merges on read.

pyiceberg reads such files and writes none: here it is made to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

_PATH_ID, _POSITION_ID = 2147483546, 2147483545  # of the columns, by the specification


def delete_positions(table: Any, path: str, positions: Sequence[int]) -> None:
    """Commit a snapshot in which these rows of a data file are deleted; `path` as in the table's metadata."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2
    from pyiceberg.table.snapshots import Operation
    from pyiceberg.table.update.snapshot import _FastAppendFiles
    from pyiceberg.typedef import Record

    class DeletesWriter(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    class AppendDeletes(_FastAppendFiles):
        def new_manifest_writer(self, spec: Any) -> ManifestWriterV2:
            metadata = self._transaction.table_metadata
            output = self.new_manifest_output()
            return DeletesWriter(spec, metadata.schema(), output, self._snapshot_id, self._compression)

    fields = [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(_PATH_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(_POSITION_ID)}),
    ]
    rows = pa.table([[path] * len(positions), list(positions)], schema=pa.schema(fields))
    target = f"{table.location()}/data/{uuid4()}-deletes.parquet"
    with table.io.new_output(target).create() as stream:
        pq.write_table(rows, stream)
    bounds = {_PATH_ID: path.encode()}  # else it could be about any file
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES, file_path=target, file_format=FileFormat.PARQUET, partition=Record(),
        record_count=len(positions), file_size_in_bytes=len(table.io.new_input(target)), spec_id=table.spec().spec_id,
        lower_bounds=bounds, upper_bounds=bounds,
    )  # fmt: skip
    with (
        table.transaction() as transaction,
        AppendDeletes(operation=Operation.APPEND, transaction=transaction, io=table.io) as update,
    ):
        update.append_data_file(deletes)

"""Some files of a Delta or Iceberg table, as other processes get them that read these alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..predicate.pruning_statistics import PruningStatisticsArray
from ..redaction import shown_redacted
from ..util.arrow_values import take
from .table_snapshot import TableSnapshot


@shown_redacted
@dataclass(frozen=True, eq=False)
class TablePart(TableSnapshot):
    """Some files of a table, with all that their reading needs; instances are sent to other processes."""

    @classmethod
    def of(cls, table: TableSnapshot, rows: Sequence[int]) -> TablePart:
        """Return a part of a table; `rows` are the positions of its files in the table."""
        paths, values = [table.files[row].path for row in rows], table.partition_values
        return cls(
            table.kind,
            table.table_id,
            table.version,
            table.root,
            table.schema,
            [table.files[row] for row in rows],
            table.columns,
            take(values, np.array(rows, np.int64)) if values.num_columns else pa.table({}),
            {path: table.deletes[path] for path in paths if path in table.deletes},
            {path: table.undefined[path] for path in paths if path in table.undefined},
            defaults=table.defaults,
        )

    def find_statistics(self, column: str) -> PruningStatisticsArray | None:
        """Return None: the files have been chosen."""
        return None

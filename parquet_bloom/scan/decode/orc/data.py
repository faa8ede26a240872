"""An open ORC file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc as po

from ....errors import UnreadableColumnError
from ....file.cache.entry import CachedFooter
from ....file.statistics import ColumnCompatibility
from ....orc import OrcFile
from ....predicate.pruning import PruningPredicate
from ....storage import Source
from ...model.plan import ORC
from ...model.row_selection import RowSelection
from ...model.schemas import reading
from ...plan.orc import find_distrusted
from .columns import names_to_read, select_columns

if TYPE_CHECKING:
    from typing import Self

    from ....orc.metadata.schema import OrcLeaf


class OrcData:
    """`DataFile` of an ORC file."""

    format = ORC

    def __init__(self, file: OrcFile):
        self.file = file
        self._last: tuple[int, tuple[str, ...], pa.Table] | None = None  # stripe, columns, and its rows

    @property
    def footers(self) -> Sequence[CachedFooter]:
        """None: what they say is not asked of ORC files."""
        return ()

    @property
    def is_local(self) -> bool:
        return self.source.path is not None

    def borrow(self, number: int) -> nullcontext[OrcData]:
        """Give this file, as the only one of those that are read together."""
        return nullcontext(self)

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def source(self) -> Source:
        return self.file.source

    @property
    def leaves(self) -> Sequence[OrcLeaf]:
        return self.file.leaves

    @property
    def row_groups(self) -> range:
        return range(len(self.file.row_groups))

    @cached_property
    def reader(self) -> po.ORCFile:
        return po.ORCFile(self.source.counted_arrow_file())

    @cached_property
    def schema(self) -> pa.Schema:
        with reading(self):
            schema = self.reader.schema
            assert schema.names is not None  # decodes them, which fails for names that are not UTF-8
            return schema

    def select_schema(self, columns: Sequence[str]) -> pa.Schema:
        return select_columns(self.schema, columns, self.path)

    def num_rows_of(self, row_group: int) -> int:
        return self.file.row_groups[row_group].num_rows

    def find_stripe(self, row_group: int) -> int:
        return self.file.row_groups[row_group].stripe

    def first_row_of(self, row_group: int) -> int:
        return self.file.row_groups[row_group].first_row

    def find_doubts(self, trust: ColumnCompatibility) -> Mapping[str, str]:
        return find_distrusted(self.file, [leaf.name for leaf in self.leaves], trust)

    def select_rows(
        self, row_group: int, predicate: PruningPredicate | bool, selection: RowSelection | None = None
    ) -> list[tuple[int, int]]:
        return [(0, self.num_rows_of(row_group))]

    def stripe(self, number: int, schema: pa.Schema) -> pa.Table:
        """Read some columns of a stripe with pyarrow; the last stripe is cached for row groups read one by one."""
        names = names_to_read(self.schema, schema)
        key = () if names is None else tuple(names)
        if self._last is None or self._last[:2] != (number, key):
            self._last = None  # free its memory before the next one is read
            batch = self.reader.read_stripe(number, names)
            rows, expected = batch.num_rows, self.file.stripes[number].num_rows
            if rows != expected:
                raise UnreadableColumnError(f"cannot be read: stripe {number} has {rows} rows instead of {expected}")
            self._last = number, key, pa.table(batch)
        return self._last[2]

    def close(self) -> None:
        self._last = None
        self.__dict__.pop("reader", None)  # has a descriptor of its own
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

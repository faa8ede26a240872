"""Timestamps of ORC files that pyarrow, which has them as nanoseconds, cannot count.

Current releases of pyarrow raise an error; older ones wrap them, which must not be taken for what is stored.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc as po

from ...hashing.column_type import Kind
from ...orc.values import fits_nanoseconds

if TYPE_CHECKING:
    from ...orc import OrcFile
    from ...orc.metadata.schema import OrcLeaf


@cache
def wraps() -> bool:
    """Whether this pyarrow wraps timestamps that nanoseconds of 64 bits cannot count."""
    new = pa.BufferOutputStream()
    po.write_table(pa.table({"t": pa.array([253_402_214_400], pa.timestamp("s"))}), new)  # 9999-12-31
    try:
        po.ORCFile(pa.BufferReader(new.getvalue())).read()
    except pa.ArrowException:
        return False
    return True


def out_of_range(file: OrcFile, leaf: OrcLeaf, stripe: int) -> bool:
    """Whether a stripe may hold a timestamp that nanoseconds of 64 bits cannot count."""
    if leaf.column_type.kind is not Kind.TIMESTAMP or leaf.column_type.physical != "INT96":
        return False
    return not fits_nanoseconds(file.stripe_statistics(leaf)[stripe])

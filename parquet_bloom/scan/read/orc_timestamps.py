"""Find timestamps of ORC files that do not fit into pyarrow's nanoseconds.

Current releases of pyarrow raise an error; older ones wrap them, and the wrong values must not be returned.
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
def wraps_timestamps() -> bool:
    """Return whether this pyarrow wraps timestamps that nanoseconds of 64 bits cannot count."""
    new = pa.BufferOutputStream()
    po.write_table(pa.table({"t": pa.array([253_402_214_400], pa.timestamp("s"))}), new)  # 9999-12-31
    try:
        po.ORCFile(pa.BufferReader(new.getvalue())).read()
    except pa.ArrowException:
        return False
    return True


def may_overflow(file: OrcFile, leaf: OrcLeaf, stripe: int) -> bool:
    """Return whether a stripe may contain a timestamp that nanoseconds of 64 bits cannot count."""
    if leaf.column_type.kind is not Kind.TIMESTAMP or leaf.column_type.physical != "INT96":
        return False
    return not fits_nanoseconds(file.stripe_statistics(leaf)[stripe])

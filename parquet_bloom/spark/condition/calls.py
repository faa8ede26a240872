"""Functions of columns that Spark evaluates as `predicate.calls` says."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import ByteType, DataType, DateType, IntegerType, LongType, ShortType, StringType

from ...predicate.tree import CallIn
from ..session.fallback import CannotPush

_WITH_TEXT = (ByteType, ShortType, IntegerType, LongType, DateType)


def read_call(item: CallIn, data_type: DataType) -> CallIn:
    """Return what is necessary for a comparison of a function of a column of some type in Spark.

    Raises
    ------
    CannotPush
        Spark's function of such values is another: texts of other collations than the default are compared, and changed
        to lower case, in other ways.
    """
    is_text = isinstance(data_type, StringType) and type(data_type) is StringType
    is_plain = is_text and getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"
    if not is_plain and not (item.function == "string" and type(data_type) in _WITH_TEXT):
        raise CannotPush(f"{item} of {data_type.simpleString()} is left to Spark")
    return replace(item, is_exact=False)

"""Write statistics of a file as the text that commits have: of values, and of what a checkpoint has in columns."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

_LONGEST_TEXT, _LAST_CHARACTER = 32, "\U0010ffff"
_NAMES = {"null_count": "nullCount", "min": "minValues", "max": "maxValues"}


def make_statistics_text(actions: pa.Table, position: int) -> str | None:
    """Return `stats` of a file's add action; None if nothing is known of its rows.

    Values whose text would not be exact for every reader are left out: decimals, and times that do not fit.

    Parameters
    ----------
    actions : deltalake's add actions, of its columns `num_records`, `null_count`, `min`, `max`.
    position : of the file.
    """
    if "num_records" not in actions.column_names:
        return None
    num_records = actions["num_records"][position].as_py()
    if num_records is None:
        return None
    # Deleted rows may be counted, which columns do not tell: with such bounds readers take only safe conclusions.
    statistics: dict[str, Any] = {"numRecords": num_records, "tightBounds": False}
    for name, member in _NAMES.items():
        if name in actions.column_names:
            values = make_bound(actions[name][position].as_py(), upper=name == "max")
            if values:
                statistics[member] = values
    return json.dumps(statistics, separators=(",", ":"), ensure_ascii=False)


def make_bound(value: Any, upper: bool) -> Any:
    """Return a bound as the text of statistics has it, structs as objects; None for one that is left out."""
    if isinstance(value, dict):
        converted = {name: make_bound(member, upper) for name, member in value.items()}
        return {name: member for name, member in converted.items() if member is not None} or None
    if isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return _cut(value, upper)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return _format_time(value, upper)
    return value.isoformat() if isinstance(value, date) else None


def _cut(text: str, upper: bool) -> str:
    """Return a bound of texts of not too many characters; an upper one that is cut is above all that begin like it."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return text[:_LONGEST_TEXT] + (_LAST_CHARACTER if upper else "")


def _format_time(moment: datetime, upper: bool) -> str | None:
    """Return a time in milliseconds; an upper bound is rounded up, as not all readers expect that it is cut."""
    milliseconds, rest = divmod(moment.microsecond, 1000)
    whole = moment.replace(microsecond=0)
    if upper and rest:
        milliseconds += 1
    if milliseconds == 1000:
        return None
    zone = "Z" if moment.tzinfo is not None else ""
    if moment.tzinfo is not None:
        whole = whole.astimezone(UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}{zone}"

"""Header of a segment: all that decides how its files are read, as its writer knew it.

It is stored in the segment's table of files, and compared with the manifest when the segment is opened: a manifest that
says otherwise would have other rows found than those that have a value. What only one file of a part is about (its
bytes, pairs, hashes and units) that file says itself, see `layouts.reader`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import shortened
from ..hashing.column_type_json import type_to_json
from ..predicate.key_expression import KeyExpression
from .files.units import Units
from .manifest import Key, Manifest, SegmentInfo

SegmentHeader = Mapping[str, Any]


def make_header(
    layout: str, settings: Mapping[str, Any], units: Units, parts: Iterable[tuple[Key, Sequence[str]]]
) -> SegmentHeader:
    """Return the header of a segment.

    Parameters
    ----------
    layout, settings, units : the index's.
    parts : the key of each part, and the names of its files.
    """
    return {
        "layout": layout,
        "settings": dict(settings),
        "granularity": units.granularity,
        "zone_rows": units.zone_rows,
        "parts": [_describe_part(key, names) for key, names in parts],
    }


def _describe_part(key: Key, names: Sequence[str]) -> dict[str, Any]:
    column, column_type, holds, meaning, other_types = key
    return {
        "column": column,
        "expression": column.to_json() if isinstance(column, KeyExpression) else None,
        "types": [*map(type_to_json, (column_type, *other_types))],
        "holds": holds.value,
        "meaning": meaning,
        "names": list(names),
    }


def find_contradiction(header: SegmentHeader | None, manifest: Manifest, info: SegmentInfo) -> str | None:
    """Return where a manifest and a segment contradict each other; None if they do not.

    Parameters
    ----------
    header : the segment's; None for one that an earlier version wrote.
    info : the segment's entry in the manifest.
    """
    expected = make_header(
        manifest.layout,
        manifest.settings,
        manifest.units,
        ((part.key, [each.name for each in part.slices]) for part in info.parts),
    )
    names = _find_foreign_name(info, manifest.layout)
    if header is None or names is not None:
        return names
    for name, value in expected.items():
        if name != "parts" and _canonical(header.get(name)) != _canonical(value):
            return _say(name, value, header.get(name))
    stored = header.get("parts")
    if not isinstance(stored, list) or len(stored) != len(info.parts):
        return f"the manifest has {len(info.parts)} parts of segment '{info.name}', the segment has others"
    for number, (part, other) in enumerate(zip(stored, expected["parts"], strict=True)):
        for name, value in other.items():
            if not isinstance(part, dict) or _canonical(part.get(name)) != _canonical(value):
                return _say(f"{name} of part {number}", value, part.get(name) if isinstance(part, dict) else None)
    return None


def _say(name: str, value: Any, stored: Any) -> str:
    ours, theirs = (shortened(_canonical(one), 200) for one in (value, stored))
    return f"the manifest contradicts the segment: {name} is {ours} in the manifest, {theirs} in the segment"


def _find_foreign_name(info: SegmentInfo, layout: str) -> str | None:
    """Return which file is not one of the segment's by its name; None if all are.

    Its number in the name of a part's file is that of the part, but for those that Spark's tasks have written.
    """
    segment = re.escape(info.name)
    if not re.fullmatch(rf"{segment}(-[0-9a-f]+)?\.files", info.files):
        return f"'{info.files}' is not a table of files of segment '{info.name}'"
    for number, part in enumerate(info.parts):
        for each in part.slices:
            match = re.fullmatch(rf"{segment}-([0-9a-f]+)((?:-[0-9a-f]+)*)\.{layout}", each.name)
            if match is None or (not match[2] and match[1] != str(number)):
                return f"'{each.name}' is not a file of part {number} of segment '{info.name}'"
    return None


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)

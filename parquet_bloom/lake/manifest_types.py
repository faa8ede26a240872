"""Whether a manifest holds what is of the types of a manifest: its checksum is right, but anyone can make that so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import BrokenIndexError

_TEXTS = ("name", "files")
_COUNTS = ("num_files", "num_units")


def require_types(told: Any) -> None:
    """Raise BrokenIndexError, or what a missing key raises, unless texts are texts and numbers are such as count."""
    if not isinstance(told, Mapping):
        raise BrokenIndexError("the manifest is no object")
    _require(isinstance(told["columns"], list) and all(isinstance(one, str) for one in told["columns"]), "columns")
    _require(isinstance(told["layout"], str) and isinstance(told["granularity"], str), "layout")
    _require(isinstance(told["settings"], Mapping) and all(map(_is_count, told["settings"].values())), "settings")
    _require(isinstance(told["snapshot"], Mapping), "snapshot")
    _require(_is_lake(told["lake"]), "lake")
    for segment in told["segments"]:
        _require(all(isinstance(segment[key], str) for key in _TEXTS), "segments")
        _require(all(_is_count(segment[key]) for key in _COUNTS), "segments")
        for part in segment["parts"]:
            _require(isinstance(part["column"], str) and isinstance(part["meaning"], str), "parts")
            for each in part["slices"]:
                _require(isinstance(each["name"], str), "slices")
                _require(all(_is_count(value) for key, value in each.items() if key != "name"), "slices")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenIndexError(f"the manifest cannot be understood: its '{what}' are not of their type")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _is_lake(lake: Any) -> bool:
    """Whether it is what `sources.list_lake` takes: paths, or the place of one table."""
    if not isinstance(lake, Mapping):
        return False
    if "paths" in lake:
        paths = lake["paths"]
        return len(lake) == 1 and isinstance(paths, list) and all(isinstance(path, str) for path in paths)
    places = {key: value for key, value in lake.items() if key != "outside"}
    return len(places) <= 1 and all(isinstance(value, str) for value in places.values())

"""Requests and answers as the service's OpenAPI document describes them; requests are checked by these very models."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema

from .values import TYPES

VALUE_SCHEMA: dict[str, Any] = {
    "title": "Value",
    "description": (
        "A whole number is exact however long, a number with a fraction or an exponent is a double. In {type, value}, "
        "dates, times and timestamps are texts as ISO 8601 writes them (an instant ends in Z or an offset), bytes are "
        "hexadecimal, decimals are texts, and an int may be a text, for clients whose numbers are doubles."
    ),
    "anyOf": [  # a whole number is a number, too
        {"type": "integer"},
        {"type": "number"},
        {"type": "string"},
        {"type": "boolean"},
        {
            "type": "object",
            "properties": {
                "type": {"enum": list(TYPES)},
                "value": {"type": ["string", "number", "boolean"]},
            },
            "required": ["type", "value"],
            "additionalProperties": False,
            "examples": [{"type": "date", "value": "2026-01-31"}],
        },
    ],
}


def _path(value: Any) -> str:
    """A path as it is: names of files may hold bytes that are no UTF-8, as Python escapes them."""
    if not isinstance(value, str):
        raise ValueError("it is no text")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ValueError("it holds characters that no file's name can") from None
    return value


Value = Annotated[Any, WithJsonSchema(VALUE_SCHEMA)]
Path = Annotated[str, PlainValidator(_path), WithJsonSchema({"type": "string"})]
Column = Annotated[str, Field(description="One of the indexed columns, by its dotted name.")]
Timezone = Annotated[
    str, Field(description="Zone of timestamps that are written without one, where a column holds instants.")
]
Version = Annotated[int, Field(description="Number of the index's state; each change makes the next one.")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class LookupRequest(_Request):
    """Values to be looked up."""

    column: Column
    values: list[Value]
    timezone: Timezone = "UTC"


class LookupQuery(BaseModel):
    """One value to be looked up, as a text."""

    model_config = ConfigDict(extra="forbid")

    column: Column
    value: Annotated[str, Field(description="Of the type in which the column is stored, unless `type` says another.")]
    type: Annotated[Literal[TYPES] | None, Field(description="What the value is.")] = None  # type: ignore[valid-type]
    timezone: Timezone = "UTC"


class AppendRequest(_Request):
    """Files to be indexed; those that are, and are unchanged, are left alone."""

    files: Annotated[
        list[Path] | None,
        Field(
            description="Absolute paths or URLs of files, folders and patterns, within the lake's folders or those "
            "that the service allows. Null or left out: the index's lake as it is now."
        ),
    ] = None
    skip_unreadable: Annotated[
        bool,
        Field(description="Index the others if a file cannot be read; otherwise nothing is changed then."),
    ] = False


class RemoveRequest(_Request):
    """Files to be taken out of the index."""

    files: Annotated[
        list[Path], Field(description="Paths as they were indexed; one that ends in a slash stands for all below it.")
    ]


class Candidate(BaseModel):
    """A file that may hold a value."""

    path: str
    row_groups: Annotated[list[int] | None, Field(description="Those that may; null for all of them.")]


class Result(BaseModel):
    """Of one value."""

    candidates: list[Candidate]


class LookupAnswer(BaseModel):
    """For each value the files that may hold it. A live file that is not named has no row of it."""

    version: Version
    column: str
    results: Annotated[list[Result], Field(description="In the order of the values.")]
    doubts: Annotated[list[str], Field(description="Why more files are named than need be; mostly empty.")]


class AppendAnswer(BaseModel):
    """What was done."""

    version: Version
    added: int
    replaced: Annotated[int, Field(description="Files indexed again, as they had changed.")]
    unchanged: int
    failed: Annotated[dict[str, str], Field(description="Files that could not be read, and are not indexed: why.")]
    entries: Annotated[int, Field(description="(value, file) or (value, row group) pairs that came in.")]
    uncovered: Annotated[
        dict[str, dict[str, str]],
        Field(description="{column: {file: why nothing of it is indexed}}; these are named for every value."),
    ]
    merged: Annotated[int, Field(description="Segments of the index that were merged.")]


class RemoveAnswer(BaseModel):
    """What was done."""

    version: Version
    removed: int


class RefreshAnswer(BaseModel):
    """The index as it is now."""

    version: Version
    files: int
    unindexed: Annotated[int | None, Field(description="Live files that are named for every value.")]


class StatsAnswer(BaseModel):
    """How large the index is, and how good."""

    version: Version
    layout: str
    granularity: str
    columns: list[str]
    settings: dict[str, Any]
    segments: int
    files: int
    units: int
    unindexed: int | None
    changed: int | None
    gone: int | None
    entries: dict[str, int]
    num_bytes: dict[str, int]
    files_bytes: int
    expected_false: Annotated[dict[str, float], Field(description="Units named for a value that is in none.")]
    snapshot: dict[str, Any]
    bytes_a_value: float


class HealthAnswer(BaseModel):
    """How the service is."""

    status: Literal["ok", "stopping"]
    version: Version
    files: int
    unindexed: int | None
    changes: Annotated[int, Field(description="Changes and refreshes that are under way, or wait.")]
    read_only: bool
    refreshed_seconds_ago: float
    refresh_problem: Annotated[str | None, Field(description="What the last refresh failed with.")]


class Problem(BaseModel):
    """Every answer that is not what was asked for."""

    error: Annotated[str, Field(description="Why, on one line.")]

"""Models of requests and responses, for validation of requests and for the OpenAPI document."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue

from .request_body import FORMS, MAX_KEY_COLUMNS, MAX_TIMEZONE, TYPES

_SHORT = {"minimum": -9.99e99, "maximum": 9.99e99}  # numbers that have at most `MAX_DIGITS` digits

VALUE_SCHEMA: JsonSchemaValue = {
    "title": "Value",
    "description": (
        "An integer of up to 100 digits is exact; a number with a fraction or an exponent is a double. In "
        "{type, value}, dates, times and timestamps are strings in ISO 8601 (an instant ends in Z or an offset), bytes "
        "are hexadecimal, decimals are strings, and an int may be a string, for clients whose numbers are doubles."
    ),
    "anyOf": [  # not oneOf, as an integer is also a number
        {"type": "integer", **_SHORT},
        {"type": "number", **_SHORT},
        {"type": "string"},
        {"type": "boolean"},
        *(
            {
                "type": "object",
                "properties": {"type": {"const": name}, "value": {"anyOf": forms}},
                "required": ["type", "value"],
                "additionalProperties": False,
            }
            for name, forms in FORMS.items()
        ),
    ],
}

_COLUMNS = {
    "type": "array",
    "items": {"type": "string"},
    "minItems": 1,
    "maxItems": MAX_KEY_COLUMNS,
    "uniqueItems": True,
}
_COLUMN_SCHEMA: JsonSchemaValue = {
    "title": "Column",
    "description": "The column of the key, or several that are one together.",
    "anyOf": [{"type": "string"}, _COLUMNS],
}
_KEYS_SCHEMA: JsonSchemaValue = {
    "title": "Keys",
    "description": "Values; for several columns, lists of one of each.",
    "type": "array",
    "items": {"anyOf": [VALUE_SCHEMA, {"type": "array", "items": VALUE_SCHEMA, "maxItems": MAX_KEY_COLUMNS}]},
}


def _describe_keys(schema: JsonSchemaValue) -> None:
    """Add that each key has as many values as there are columns."""
    single = {"anyOf": [{"type": "string"}, {"type": "array", "maxItems": 1}]}
    shapes = [{"properties": {"column": single, "keys": {"items": {"not": {"type": "array"}}}}}]
    for number in range(2, MAX_KEY_COLUMNS + 1):
        several = {"type": "array", "minItems": number, "maxItems": number}
        shapes.append({"properties": {"column": several, "keys": {"items": several}}})
    schema["anyOf"] = shapes


_LOCATION = (
    r"^(?!(?:.*/\*\*(?=/|$)){3})(?:/|(?:s3a?|gcs|gs|azure|az|abfss?|adl|https?)://)[^\u0000]*$"  # as `find_files`
)


def _path(value: object) -> str:
    """Check a path, which may hold surrogates, as file names need not be valid UTF-8."""
    if not isinstance(value, str):
        raise ValueError("it is not a string")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ValueError("it holds characters that file names cannot have") from None
    return value


Value = Annotated[object, WithJsonSchema(VALUE_SCHEMA)]
Path = Annotated[str, PlainValidator(_path), WithJsonSchema({"type": "string"})]
Location = Annotated[str, PlainValidator(_path), WithJsonSchema({"type": "string", "pattern": _LOCATION})]
Column = Annotated[str, Field(description="An indexed column, by its dotted path.")]
Timezone = Annotated[
    str,
    Field(
        description="Time zone of timestamps without one, if the column holds instants: a name or an offset.",
        json_schema_extra={"minLength": 1, "maxLength": MAX_TIMEZONE, "examples": ["Europe/Berlin", "+01:00"]},
    ),
]
Version = Annotated[int, Field(description="Version number of the index, increased by each change.")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class LookupRequest(_Request):
    """Values to look up."""

    column: Column
    values: list[Value]
    timezone: Timezone = "UTC"


class LookupQuery(BaseModel):
    """One value to look up, as a string."""

    model_config = ConfigDict(extra="forbid")

    column: Column
    value: Annotated[str, Field(description="Of the column's type, unless `type` is given.")]
    type: Annotated[
        Literal[TYPES] | None,  # type: ignore[valid-type]
        Field(description="Type of the value."),
        WithJsonSchema({"enum": list(TYPES)}),
    ] = None
    timezone: Timezone = "UTC"


class GetRequest(_Request):
    """Keys whose rows to get."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=_describe_keys)

    column: Annotated[str | list[str], WithJsonSchema(_COLUMN_SCHEMA)]
    keys: Annotated[list[Value | list[Value]], WithJsonSchema(_KEYS_SCHEMA)]
    columns: Annotated[list[str] | None, Field(description="Columns of the rows; all by default.")] = None
    timezone: Timezone = "UTC"


class AppendRequest(_Request):
    """Files to index; indexed files that have not changed are skipped."""

    files: Annotated[
        list[Location] | None,
        Field(
            description="Absolute paths or URLs of files, folders and patterns, within the lake's folders or the "
            "allowed roots of the service. Default: the current files of the index's lake."
        ),
    ] = None
    skip_unreadable: Annotated[
        bool,
        Field(description="Index the other files if one cannot be read; by default nothing is changed then."),
    ] = False


class RemoveRequest(_Request):
    """Files to remove from the index."""

    files: Annotated[
        list[Path],
        Field(description="Paths as they were indexed; one that ends in a slash means all paths below it."),
    ]


class CandidateModel(BaseModel):
    """A file that may hold a value."""

    path: str
    row_groups: Annotated[list[int] | None, Field(description="The row groups that may hold it; null for all.")]
    rows: Annotated[
        list[list[tuple[int, int]]] | None,
        Field(
            description="In an index of zones, for each of row_groups the ranges of its rows that may hold it: the "
            "first one, and the one after the last. Left out where that is all of them."
        ),
    ] = None


class Result(BaseModel):
    """The result for one value."""

    candidates: list[CandidateModel]


class LookupAnswer(BaseModel):
    """For each value the files that may hold it. A file of the lake that is not listed has no such row."""

    version: Version
    column: str
    results: Annotated[list[Result], Field(description="In the order of the values.")]
    doubts: Annotated[list[str], Field(description="Reasons why more files than necessary are listed; usually empty.")]


class GetAnswer(BaseModel):
    """The rows of the first key, in the order of files, then those of the second one, and so on."""

    version: Version
    columns: list[str]
    rows: Annotated[
        list[dict[str, object]],
        Field(
            description="Decimals, dates, times and timestamps are strings, bytes are hexadecimal; NaN and the "
            'infinities are "NaN", "Infinity" and "-Infinity".'
        ),
    ]


class AppendAnswer(BaseModel):
    """The changes made by an append."""

    version: Version
    added: int
    replaced: Annotated[int, Field(description="Files indexed again because they had changed.")]
    unchanged: int
    failed: Annotated[
        dict[str, str], Field(description="Files that could not be read and are not indexed, with the reason.")
    ]
    entries: Annotated[int, Field(description="Added (value, file) or (value, row group) pairs.")]
    uncovered: Annotated[
        dict[str, dict[str, str]],
        Field(description="{column: {file: reason why it is not indexed}}; lookups list these files for every value."),
    ]
    merged: Annotated[int, Field(description="Merged segments of the index.")]


class RemoveAnswer(BaseModel):
    """The changes made by a removal."""

    version: Version
    removed: int


class RefreshAnswer(BaseModel):
    """The state of the index after a refresh."""

    version: Version
    files: int
    unindexed: Annotated[
        int | None, Field(description="Files of the lake that are not indexed; they are returned for every value.")
    ]


class StatsAnswer(BaseModel):
    """The size and precision of the index."""

    version: Version
    layout: str
    granularity: str
    zone_rows: Annotated[int, Field(description="Rows of a zone; 0 for other granularities.")]
    columns: list[str]
    settings: dict[str, object]
    segments: int
    files: int
    units: int
    unindexed: int | None
    changed: int | None
    gone: int | None
    entries: dict[str, int]
    num_bytes: dict[str, int]
    files_bytes: int
    expected_false: Annotated[dict[str, float], Field(description="Units expected to be listed for an absent value.")]
    snapshot: dict[str, object]
    bytes_a_value: float


class HealthAnswer(BaseModel):
    """The state of the service."""

    status: Literal["ok", "stopping"]
    version: Version
    files: int
    unindexed: int | None
    changes: Annotated[int, Field(description="Running and waiting changes and refreshes.")]
    read_only: bool
    rows: Annotated[bool, Field(description="Whether the service gives rows.")]
    refreshed_seconds_ago: float
    refresh_problem: Annotated[str | None, Field(description="Error of the last refresh, if it failed.")]


class Problem(BaseModel):
    """The response to a request that failed."""

    error: Annotated[str, Field(description="The reason, on one line.")]

"""The rows that a command changes, chosen by keys, by a predicate, or by both; and whether it may go on."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import click
import pyarrow as pa

from ...predicate.key_expression import KeyExpression, is_of_path, parse_key
from ...predicate.variant_names import to_arrow_type
from ...scan.named_columns import has_column
from ..command import CommandOptions, flag, option, usage_error
from ..output.output import Output
from .key_options import KeyList, KeyStream, open_key_file, parse_key_options
from .lookup_options import ABOUT_KEYS
from .name_completion import complete_columns
from .shared_options import TIMEZONE


class ChosenRows(CommandOptions):
    """Which rows are meant."""

    title = "Rows"

    about = ABOUT_KEYS

    given: tuple[str, ...] = option(
        "COLUMN=VALUE",
        "A key of the rows. Repeatable; several columns that are a key together are separated by commas.",
        "--key",
        multiple=True,
    )
    keys_from: str | None = option(
        "FILE",
        "The rows whose --key-column is a key of this file. It is text with one key per line, or - for standard "
        "input; or a Parquet or Arrow file that has the column, or only one; or a .csv file whose header has it. Keys "
        "that are null are left out, and counted.",
        "--keys",
    )
    on: tuple[str, ...] = option(
        "NAME",
        "The column of --keys. Repeatable, for keys of several columns. Also lower(NAME), upper(NAME) or "
        "CAST(NAME AS STRING).",
        "--key-column",
        multiple=True,
        shell_complete=complete_columns,
    )
    where: str | None = option(
        "SQL", "The rows that match this predicate, as after WHERE in SQL. Beside keys, those that match both."
    )
    dialect: str | None = option(
        "NAME", "SQL dialect of --where: spark, or another one that sqlglot knows.", rarely=True
    )
    timezone: str = TIMEZONE

    @contextmanager
    def open(self, paths: Sequence[str], output: Output) -> Iterator[GivenRows]:
        """Open the keys.

        Raises
        ------
        click.UsageError
            The options do not fit together.
        ParquetBloomError
            The file of keys cannot be read, or has no such column.
        """
        if self.given and self.keys_from is not None:
            raise usage_error("--key and --keys exclude each other")
        if not self.given and self.keys_from is None and self.where is None:
            raise usage_error("no rows are chosen: give --key COLUMN=VALUE, --keys FILE with --key-column, or --where")
        if (self.keys_from is None) != (not self.on):
            raise usage_error("--keys and --key-column go together; --key names its columns itself")
        if len({*self.on}) < len(self.on):
            raise usage_error("--key-column names a column twice")
        if self.keys_from is None:
            yield self._make(parse_key_options(self.given) if self.given else None)
            return
        with open_key_file(self.keys_from, self.on, paths, output, skip_nulls=True) as keys:
            yield self._make(keys)

    def _make(self, keys: KeyList | KeyStream | None) -> GivenRows:
        return GivenRows(keys, {"where": self.where, "dialect": self.dialect, "timezone": self.timezone})


class GivenRows(NamedTuple):
    """The rows that options choose, before the types of the columns are known."""

    keys: KeyList | KeyStream | None
    others: Mapping[str, Any]

    def parse(self, schema: pa.Schema | None) -> dict[str, Any]:
        """Return the arguments of `delete` and `erase` that choose the rows; the schema is needed for keys alone.

        Raises
        ------
        UnknownColumnError
            There is no such column.
        PredicateError
            A key is not a value of its column.
        """
        if self.keys is None or schema is None:
            return {**self.others}
        names = self.keys.columns
        expression = parse_key(names[0]) if len(names) == 1 and not has_column(schema, names[0]) else None
        if isinstance(expression, KeyExpression):
            is_path = is_of_path(expression)
            schema = pa.schema([(names[0], to_arrow_type(expression.target) if is_path else pa.string())])
        on, keys = self.keys.parse(schema)
        nulls = [None] * (self.keys.num_null if isinstance(self.keys, KeyList) else 0)
        if nulls:
            keys = {name: [*values, *nulls] for name, values in keys.items()} if len(names) > 1 else [*keys, *nulls]
        return {**self.others, "on": on, "keys": keys}


YES = flag("Do not ask before rows are changed. It is needed where there is no terminal to ask on.", "--yes")


class RowCommit(CommandOptions):
    """Whether rows of a table are changed, or only looked for."""

    title = "Commit"

    commit: bool = flag("Commit the change. This or --dry-run is required.")
    dry_run: bool = flag(
        "Commit nothing, print the files that would be changed. Nothing is written, and each has its number of rows."
    )
    yes: bool = YES
    retries: int | None = option(
        "N",
        "How often to begin again when other writers have committed meanwhile; 10 by default.",
        type=click.IntRange(min=0),
        rarely=True,
    )

    @property
    def asks(self) -> bool:
        """Whether the change is confirmed on the terminal."""
        return self.commit and not self.yes

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the function that commits, but for `dry_run`."""
        return {} if self.retries is None else {"retries": self.retries}

    def require_one(self) -> None:
        """Raise click.UsageError unless it is said what is to be done."""
        if self.commit == self.dry_run:
            raise usage_error("one of --commit and --dry-run is required" + (", not both" if self.commit else ""))


def is_confirmed(question: str, output: Output) -> bool:
    """Ask on the terminal, and say so if nothing is to be changed."""
    answer = click.confirm(question, err=True)
    if not answer:
        output.note("not confirmed: nothing was changed")
    return answer


def require_terminal() -> None:
    """Raise click.UsageError if there is no terminal to ask on."""
    if not (sys.stdin and sys.stdin.isatty()):
        raise usage_error("there is no terminal to ask on: add --yes")

"""What the commands have in common: paths, formats, colors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from ..storage import file_system
from .column_names import columns_beginning
from .formats import FORMATS
from .output import Output

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{pair!r} is not of the form KEY=VALUE", context, parameter)
        pairs[key] = value
    return pairs


_COMMON: tuple[_Decorator, ...] = (
    click.option(
        "--format",
        "format",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How to print the rows; json is one document with totals and errors, ndjson a row a line.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Short for --format json."),
    click.option(
        "--color",
        type=click.Choice(("auto", "always", "never")),
        default="auto",
        show_default=True,
        help="auto: on terminals, unless NO_COLOR is set.",
    ),
    click.option(
        "--storage-option",
        "storage_options",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_pairs,
        help="A setting of the store that URLs lead to, by obstore's name, such as aws_region=eu-west-1. Repeatable.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Say more on stderr: each file, and where time went."),
)

_COMMON_NAMES = ("format", "as_json", "color", "storage_options", "verbose")

PATHS_HELP = (
    "A PATH is a file, a folder (with all below it), a quoted pattern such as 'lake/*/*.parquet', "
    "a URL of any of them on an object store (s3://, gs://, az://, abfss://) or of a file on a web server (https://), "
    "or - for a list on standard input, a path a line (or ended by NUL, as find -print0 does)."
)


def command(
    name: str, *, example: str, exit_codes: str, paths: bool = True
) -> Callable[[Callable[..., int]], click.Command]:
    """Make a command of a function that takes an `output`, its PATHs, and its own options, and returns the exit code.

    Parameters
    ----------
    name : of the command.
    example : lines for the end of its help.
    exit_codes : what they mean, for the same place.
    paths : whether it takes PATHs.
    """
    lines = "\n".join(f"  {line}" for line in example.splitlines())
    about_paths = f"{PATHS_HELP}\n\n" if paths else ""
    epilog = f"{about_paths}Exit codes: {exit_codes}\n\n\b\nExample:\n{lines}"

    def decorate(function: Callable[..., int]) -> click.Command:
        @functools.wraps(function)
        def run(
            format: str, as_json: bool, color: str, storage_options: dict[str, str], verbose: bool, **arguments: Any
        ) -> int:
            output = Output(name, "json" if as_json else format, color, verbose, file_system(None, storage_options))
            click.get_current_context().find_root().obj = output
            return function(output, **arguments)

        wrapped: Callable[..., Any] = run
        for option in reversed(_COMMON):
            wrapped = option(wrapped)
        if paths:
            # The type is for completion by the shell; what a path leads to is found out, and said, elsewhere.
            path = click.Path(readable=False, allow_dash=True)
            wrapped = click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=path)(wrapped)
        made = click.command(name, epilog=epilog)(wrapped)
        made.params.sort(key=lambda parameter: parameter.name in _COMMON_NAMES)  # the command's own come first
        return made

    return decorate


def column_option(help: str, required: bool = False) -> _Decorator:
    """`--column NAME`, as often as wanted."""
    return click.option(
        "--column",
        "columns",
        metavar="NAME",
        multiple=True,
        required=required,
        shell_complete=columns_beginning,
        help=help,
    )


def jobs_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--jobs N`, for `working`."""
    text = "Files that are worked on at once; results keep the files' order."
    return click.option("--jobs", metavar="N", type=click.IntRange(min=1), default=1, show_default=True, help=text)(
        function
    )


def target_options(what: str) -> _Decorator:
    """`-o`, `--in-place` and `--dry-run`, for commands that write files; `require_target` checks them.

    Parameters
    ----------
    what : what a dry run shows.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option("--dry-run", is_flag=True, help=f"Write nothing; show {what}, a row each.")(function)
        text = "Replace the files themselves, each atomically."
        function = click.option("--in-place", is_flag=True, help=text)(function)
        return click.option(
            "-o",
            "--output",
            "target",
            metavar="PATH",
            help="Write here: a file for one file; a folder (made if need be) for several, or if it ends in /. "
            "Below it, files keep their place.",
        )(function)

    return decorate


def require_target(target: str | None, in_place: bool, dry_run: bool) -> None:
    """Refuse a command that does not say, or says twice, where its files go."""
    if target is not None and in_place:
        raise click.UsageError("-o and --in-place exclude each other", click.get_current_context())
    if target is None and not in_place and not dry_run:
        raise click.UsageError("say where to: -o PATH, --in-place, or --dry-run", click.get_current_context())

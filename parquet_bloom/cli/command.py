"""Commands and their options, which are declared as attributes of a class: a command gets an instance of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

from ..redaction import remember
from ..storage import resolve_filesystem
from .output.output import Output
from .output.row_formats import FORMATS

O = TypeVar("O", bound="CommandOptions")  # noqa: E741

POSITIVE = click.IntRange(min=1)


class _Declared:
    """An option, or an argument, whose `help` is at the end of that of the command."""

    def __init__(self, kind: type[click.Parameter], names: tuple[str, ...], help: str, settings: Mapping[str, Any]):
        self._kind = kind
        self._names = names
        self._settings = settings
        self.help = help

    def make(self, attribute: str) -> click.Parameter:
        names = self._names
        if self._kind is click.Option and not names:
            names = (f"--{attribute.replace('_', '-')}",)
        return self._kind([*names, attribute], **self._settings)


def option(metavar: str | None, help: str, *names: str, **settings: Any) -> Any:
    """Declare an option, by default of the attribute's name; `settings` are those of `click.Option`."""
    shown = {"show_default": "default" in settings, "show_envvar": "envvar" in settings}
    return _Declared(click.Option, names, "", {"metavar": metavar, "help": help} | shown | settings)


def flag(help: str, *names: str) -> Any:
    """Declare an option without a value."""
    return _Declared(click.Option, names, "", {"help": help, "is_flag": True})


def argument(metavar: str, help: str = "", **settings: Any) -> Any:
    """Declare an argument; `settings` are those of `click.Argument`."""
    return _Declared(click.Argument, (), help, {"metavar": metavar} | settings)


def group(options: type[O]) -> O:
    """Declare a group of options that several commands have."""
    return options  # type: ignore[return-value]  # `CommandOptions` makes an instance of it


class CommandOptions:
    """The values of the options that are declared as attributes of a class derived from this one.

    Attributes
    ----------
    about : a text for the end of the command's help.
    """

    about = ""

    def __init__(self, values: Mapping[str, Any]) -> None:
        for name, declared in _list_declared(type(self)).items():
            setattr(self, name, values[name] if isinstance(declared, _Declared) else declared(values))


def _list_declared(options: type[CommandOptions]) -> dict[str, _Declared | type[CommandOptions]]:
    """Return the declarations of a class, those of its base classes first."""
    return {
        name: value
        for base in reversed(options.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, _Declared) or (isinstance(value, type) and issubclass(value, CommandOptions))
    }


def _make_parameters(options: type[CommandOptions], texts: list[str]) -> Iterator[click.Parameter]:
    """Yield the parameters of a class and its groups; add what the end of the help says of them to `texts`."""
    for name, declared in _list_declared(options).items():
        if isinstance(declared, _Declared):
            texts.append(declared.help)
            yield declared.make(name)
        else:
            yield from _make_parameters(declared, texts)
    texts.append(options.about)


def usage_error(problem: str) -> click.UsageError:
    """Return the error for arguments of the running command that do not fit together."""
    return click.UsageError(problem, click.get_current_context())


def _parse_pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for number, pair in enumerate(given, 1):
        key, equals, value = pair.partition("=")
        if not key or not equals:
            # The pair may be a secret without its key, so the message must not repeat it.
            raise click.BadParameter(f"number {number} is not of the form KEY=VALUE", context, parameter)
        pairs[key] = value
    remember(pairs)  # hides secret values in all later output
    return pairs


class _Common(CommandOptions):
    format = option(
        None,
        "How to print the rows; json is one document with totals and errors, ndjson one row per line.",
        type=click.Choice(FORMATS),
        default="table",
    )
    as_json = flag("Short for --format json.", "--json")
    color = option(
        None,
        "auto: on terminals, unless NO_COLOR is set.",
        type=click.Choice(("auto", "always", "never")),
        default="auto",
    )
    storage_options = option(
        "KEY=VALUE",
        "A setting of the object store of URLs, by its name in obstore, such as aws_region=eu-west-1. Repeatable.",
        "--storage-option",
        multiple=True,
        callback=_parse_pairs,
    )
    totals = flag("Print the totals alone: one line on stdout, or the JSON document without its rows.")
    quiet = flag(
        "Print nothing but errors, and data that was asked for: rows of find, get and locate, files of index lookup, "
        "and whatever --format is given for.",
        "-q",
        "--quiet",
    )
    verbose = flag("Print more on stderr: each file, and the time of each step.", "-v", "--verbose")


_OVERRIDABLE = ("format", "color")  # an alias of the shell may give them, and a call others


class OnceCommand(click.Command):
    """A command that refuses an option of one value that is given twice: the first would count for nothing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            seen: set[str | None] = set()
            for one in self.make_parser(ctx).parse_args(list(args))[2]:
                if not isinstance(one, click.Option) or one.multiple or one.is_flag or one.name in _OVERRIDABLE:
                    continue
                if one.name in seen:
                    name = next(name for name in one.opts if name.startswith("--"))
                    raise click.UsageError(f"{name} is given twice, and has one value", ctx)
                seen.add(one.name)
        return super().parse_args(ctx, args)


def command(
    name: str,
    options: type[O],
    *,
    storage: bool = True,
    totals: bool = True,
    cls: type[click.Command] = OnceCommand,
    **settings: Any,
) -> Callable[[Callable[[Output, O], int]], click.Command]:
    """Turn a function of an `Output` and of options, which returns the exit code, into a command.

    Its docstring is the help, of which "Exit codes:" and "Example:" come after the options.

    Parameters
    ----------
    name : name of the command, preceded by that of its group.
    storage : whether it opens files that may be on an object store.
    totals : whether it has totals besides its rows.
    cls, settings : class of the command, and settings of its context.
    """
    texts: list[str] = []
    params = [*_make_parameters(options, texts), *_make_parameters(_Common, texts)]
    lacking = {name for name, there in (("storage_options", storage), ("totals", totals)) if not there}
    params = [parameter for parameter in params if parameter.name not in lacking]

    def decorate(function: Callable[[Output, O], int]) -> click.Command:
        text, _, end = inspect.cleandoc(function.__doc__ or "").partition("\n\nExit codes: ")
        codes, _, example = end.partition("\n\nExample:\n")
        lines = "\n".join(f"  {part}" for line in example.splitlines() for part in wrap_command(line.strip()))
        epilog = "\n\n".join([*filter(None, texts), f"Exit codes: {codes}", f"\b\nExample:\n{lines}"])

        def run(**values: Any) -> int:
            storage_options = values.get("storage_options")
            filesystem = resolve_filesystem(None, storage_options)
            format = "json" if values["as_json"] else values["format"]
            chosen = {each: values.get(each, False) for each in ("verbose", "quiet", "totals")}
            _require_clear(chosen, format)
            output = Output(
                name, format, values["color"], **chosen, filesystem=filesystem, storage_options=storage_options
            )
            output.skips_broken = values.get("skip_broken", False)
            click.get_current_context().find_root().obj = output
            return function(output, options(values))

        short_name = name.rpartition(" ")[2]
        return cls(short_name, callback=run, params=params, help=text, epilog=epilog, context_settings=settings)

    return decorate


def _require_clear(chosen: Mapping[str, bool], format: str) -> None:
    """Raise click.UsageError for options of the output that contradict each other."""
    given = [f"--{name}" for name, is_given in chosen.items() if is_given]
    if len(given) > 1:
        raise usage_error(f"{' and '.join(given)} exclude each other")
    if chosen["totals"] and format not in ("table", "json"):
        raise usage_error(f"--totals is for --format table and json: {format} has rows alone")


_WORDS = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_EXAMPLE_WIDTH = 76


def wrap_command(line: str) -> list[str]:
    """Break a line of shell before options and pipes, where it is too long for the help of 80 columns."""
    parts: list[str] = []
    for word in _WORDS.findall(line):
        if parts and not word.startswith(("-", "|", "http")):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) < _EXAMPLE_WIDTH - len(" \\"):
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {part}")
    return lines

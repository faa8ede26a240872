"""Groups of commands whose commands are imported only when the command is run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

_ALIKE = 0.66  # of names of up to ten letters: one or two of them differ
_SUGGESTIONS = 3
_SYNONYMS = {"on": ("key-column", "column"), "filter": ("where",), "select": ("columns",)}  # as in SQL and in Python


def suggest(name: str, names: Iterable[str]) -> str:
    """Return an addition to a message that names what a mistyped command or option may have been; nothing if unclear.

    The dashes before an option do not make it like another.
    """
    bare = {one.lstrip("-"): one for one in names}
    word = name.lstrip("-")
    if word in _SYNONYMS and word not in bare:
        word = next((one for one in _SYNONYMS[word] if one in bare), "")
    begun = [one for one in bare if word and one.startswith(word)]
    likely = begun if len(begun) <= _SUGGESTIONS else []
    likely = likely or get_close_matches(word, bare, 1, _ALIKE)
    return f"; did you mean {' or '.join(repr(bare[one]) for one in likely)}?" if likely else ""


HELP_OPTIONS = ["-h", "--help"]


class LazyGroup(click.Group):
    """A group that imports a command when it is looked up.

    Parameters
    ----------
    commands : the module below `cli.commands` and the line of `--help` of each command, so that `--help` does not have
        to import them; the command's function has its name, with _ for -.
    """

    def __init__(self, *args: Any, commands: Mapping[str, tuple[str, str]], **extra: Any):
        super().__init__(*args, **extra)
        self._modules = {name: module for name, (module, _) in commands.items()}
        self._texts = {name: text for name, (_, text) in commands.items()}

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Return the names of the option; the commands have a `--help-all` of their own."""
        return [*super().get_help_option_names(ctx), "--help-all"]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._texts)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._texts:
            return None
        module = import_module(f".commands.{self._modules[cmd_name]}", __package__)
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._texts and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"no such command {name!r}{suggest(name, self._texts)}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        matches = {name: text for name, text in self._texts.items() if name.startswith(incomplete)}
        commands = [CompletionItem(name, help=text) for name, text in matches.items()]
        # click.Group.shell_complete would import every command.
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._texts.items()))

"""Groups of commands, a module a command: only the module that is asked for is imported."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem


class Commands(click.Group):
    """Finds commands by name.

    Parameters
    ----------
    package : where their modules are, each called as its command, with _ for -, and so the command in it.
    texts : what `--help` says of each; it need not import them for that.
    """

    def __init__(self, *args: Any, package: str, texts: Mapping[str, str], **extra: Any):
        super().__init__(*args, **extra)
        self._package = package
        self._texts = texts

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._texts)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._texts:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"{self._package}.{name}"), name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        begun = {name: text for name, text in self._texts.items() if name.startswith(incomplete)}
        commands = [CompletionItem(name, help=text) for name, text in begun.items()]
        return commands + click.Command.shell_complete(self, ctx, incomplete)  # the group's own would import them all

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._texts.items()))

"""The page of the command line, written from the commands themselves."""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Iterator

import click

from parquet_bloom.cli import tool
from parquet_bloom.cli.options.shared_options import PATHS_HELP

MARKER = "<!-- every command, from its own help -->"

_EXAMPLE = "\b\nExample:\n"


def describe_commands() -> str:
    """Return Markdown with a section for each command: what it does, its arguments, options, exit codes and example."""
    context = click.Context(tool, info_name="parquet-bloom")
    contexts = list(_walk(context))
    tables = [_options(each) for each in contexts]
    whole = [table for table in tables if any("--format" in line for line in table)]
    common = [line for line in whole[0] if all(line in table for table in whole)]
    lines = ["\n## Paths\n", *_paragraphs(PATHS_HELP), "## Options of every command\n", *_table(common)]
    for each, table in zip(contexts, tables, strict=True):
        lines += _describe(each, [line for line in table if line not in common])
    return "\n".join(lines)


def _walk(context: click.Context) -> Iterator[click.Context]:
    command = context.command
    assert isinstance(command, click.Group)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        inner = click.Context(child, info_name=name, parent=context)
        yield inner
        if isinstance(child, click.Group):
            yield from _walk(inner)


def _describe(context: click.Context, options: list[str]) -> Iterator[str]:
    command = context.command
    yield f"\n## {context.command_path.removeprefix('parquet-bloom ')}\n"
    yield from _paragraphs(command.help or "")
    yield f"```text\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield from _table(options)
    if command.epilog:
        yield from _paragraphs(command.epilog.replace(PATHS_HELP, "").strip("\n"))


def _options(context: click.Context) -> list[str]:
    """Return the rows of a command's table of options."""
    records = [
        parameter.get_help_record(context)
        for parameter in context.command.params
        if isinstance(parameter, click.Option)
    ]
    return [f"| {_code(record[0])} | {_text(record[1])} |" for record in records if record]


def _table(rows: list[str]) -> list[str]:
    return ["| option | meaning |\n|---|---|", *rows, ""] if rows else []


def _paragraphs(text: str) -> Iterator[str]:
    """Yield a help text's paragraphs; one that click prints line by line is shown line by line."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith(_EXAMPLE):
            yield f"```shell\n{inspect.cleandoc(paragraph.removeprefix(_EXAMPLE))}\n```\n"
        elif paragraph.startswith("\b\n") and "\n" in paragraph[2:]:
            yield f"```text\n{paragraph[2:]}\n```\n"
        else:
            yield _text(" ".join(paragraph.strip("\b").split())) + "\n"


def _code(text: str) -> str:
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>"


def _text(text: str) -> str:
    """Keep Markdown from reading signs in a help text as its own."""
    return re.sub(r"([*_\[\]|\\])", r"\\\1", html.escape(text, quote=False))

"""Pages of Markdown whose examples are run: their fenced blocks, links, and what the examples print.

A block names the folder that it runs in after its language:

    ```python lake
    ```console lake

`lake` is made by the function of that name in `doc_lakes.py`; a block without one runs in an empty folder. Blocks of
one page that name the same folder share it, from the top of the page down, so that one command can change what the next
one shows. The output of a Python block is in the ```text block after it; one without such a block is shown only.
A console block holds command lines and what they print, stdout and stderr as a terminal of 100 columns shows them:
`$ parquet-bloom ...`, and `$ echo $?` for the exit code. Where a path from the root is printed, the folder is shown as
`/data`; commands about an index or zones, which name files so, have a terminal that is as much wider.

Times, bytes read and sizes of whole files are compared by their shape alone (`CHANGING`); all else to the letter.
``PARQUET_BLOOM_UPDATE_GOLDEN=1`` writes what is printed into the pages.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from click.testing import CliRunner

from parquet_bloom.cli import tool
from parquet_bloom.file.metadata_cache import SHARED_CACHE
from support.documents import doc_lakes

PROJECT = Path(__file__).resolve().parents[3]

CHANGING = (
    (re.compile(r"\d[\d,.]* (s|ms|us|ns)\b"), "<time>"),
    (re.compile(r"\b\d+\.\d{3}(\d{3})?$", re.MULTILINE), "<time>"),  # the last column of a table
    (re.compile(r"\d[\d,.]* (KB|MB)\b"), "<bytes>"),  # footers bear the name and version of their writer,
    (re.compile(r"\d+ requests?, <bytes> of data"), "<reads> of data"),  # as far as threads got before an error
    (re.compile(r"\d+(?=  yes +<time>$)", re.MULTILINE), "<bytes>"),  # and sizes of new files follow
)

HERE = "/data"

_FENCE = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_SOURCE = re.compile(r"`([\w*/]+\.(?:pyx|pxd|pxi|py|h|sh))`")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes
    ----------
    language : the first word after the fence.
    folder : the second one, empty without.
    text : its lines.
    start, end : where in the page its lines begin and end.
    """

    language: str
    folder: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Example:
    """Something that is run: a Python block with its output, or a console block.

    Attributes
    ----------
    code : the Python block, or the console block itself.
    output : the block that holds what it prints.
    """

    code: Block
    output: Block


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [Block(match[1], match[2] or "", match[3], match.start(3), match.end(3)) for match in _FENCE.finditer(page)]


def examples(page: str) -> Iterator[Example]:
    """Return the examples of a page. Python without a block of output after it is only shown, and must compile."""
    result = blocks(page)
    for block, next_block in zip_longest(result, result[1:]):
        if block.language == "console":
            yield Example(block, block)
        elif block.language == "python":
            if (
                next_block is not None
                and next_block.language == "text"
                and not page[block.end : next_block.start - 8].strip("`\n")
            ):
                yield Example(block, next_block)
            else:
                compile(block.text, "<page>", "exec")


def check(page: Path, folder: Path) -> None:
    """Run a page's examples below an empty folder: they print what the page says, or will say from now on."""
    text = page.read_text("utf-8")
    outputs = []
    for example in examples(text):
        location = folder / (example.code.folder or "empty")
        if not location.exists():
            shutil.copytree(make_template(example.code.folder), location)
        run = _console if example.code is example.output else _python
        outputs.append((example.output, run(example.code.text, location).replace(str(location), HERE)))
    if os.environ.get("PARQUET_BLOOM_UPDATE_GOLDEN", "0") not in ("", "0"):
        page.write_text(_renewed(text, outputs), "utf-8")
        return
    for block, output in outputs:
        assert shape(output) == shape(block.text), (
            "the page says something else; PARQUET_BLOOM_UPDATE_GOLDEN=1 renews it"
        )


_TEMPLATES = tempfile.TemporaryDirectory(prefix="doc-lakes-")


@functools.cache
def make_template(name: str) -> Path:
    """Make the folder of a name once; pages get copies."""
    folder = Path(_TEMPLATES.name, name or "empty")
    folder.mkdir()
    if name:
        getattr(doc_lakes, name)(folder)
    return folder


def _python(code: str, folder: Path) -> str:
    """In this process, which has imported everything by then, but with no footers known and no names but its own."""
    SHARED_CACHE.clear()
    text = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        exec(compile(code, "<page>", "exec"), {"__name__": "__main__"})
    return text.getvalue()


def _console(text: str, folder: Path) -> str:
    lines, code = [], 0
    with contextlib.chdir(folder):
        for command in _commands(text):
            lines.append(f"$ {command}\n")
            if command == "echo $?":
                lines.append(f"{code}\n")
                continue
            program, *arguments = shlex.split(command, comments=True)
            assert program == "parquet-bloom", f"a console block runs parquet-bloom alone, not {program}"
            columns = 100 + (len(str(folder)) - len(HERE) if arguments[0] in ("index", "zones") else 0)
            result = CliRunner(env={"COLUMNS": str(columns)}).invoke(tool, arguments)
            if result.exception and not isinstance(result.exception, SystemExit):
                raise result.exception
            lines.append(result.output)
            code = result.exit_code
    return "".join(lines)


def _commands(text: str) -> list[str]:
    """The command lines of a console block; one that ends in a backslash goes on in the next line."""
    return re.findall(r"^\$ ((?:.*\\\n)*.*)$", text, re.MULTILINE)


def shape(text: str) -> str:
    """Return an output without the parts that differ from run to run."""
    for pattern, stand_in in CHANGING:
        text = pattern.sub(stand_in, text)
    return text


def _renewed(page: str, outputs: list[tuple[Block, str]]) -> str:
    """A page with what its examples print by now, where that is of another shape."""
    for block, output in sorted(outputs, key=lambda pair: pair[0].start, reverse=True):
        if shape(output) != shape(block.text):
            page = page[: block.start] + output + page[block.end :]
    return page


def links(page: str) -> list[str]:
    """Return the targets of a page's links, except those in code."""
    return _LINK.findall(_CODE.sub("", page))


def anchors(page: str) -> set[str]:
    """The names under which a page's headings can be linked to, as GitHub, GitLab and the site make them.

    An entry of the API reference (`::: NAME`) can be linked to by its name.
    """
    text = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading).lower() for heading in _HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain} | set(entries(page))


def entries(page: str) -> list[str]:
    """Return the names that a page of the API reference describes."""
    return re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)


def named_sources(page: str) -> set[str]:
    """The source files that a page names, as ends of their paths; `*` and `NAME` match any part."""
    return {named.replace("NAME", "*") for named in _SOURCE.findall(page)}


def sources() -> list[str]:
    """The project's source files, with `/` between the parts of their paths."""
    folders = ("parquet_bloom", "tests", "tools", "examples")
    paths = [path for folder in folders for path in (PROJECT / folder).rglob("*.*")]
    return [path.relative_to(PROJECT).as_posix() for path in [*paths, *PROJECT.glob("*.py")]]

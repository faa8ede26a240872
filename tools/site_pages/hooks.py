"""Hooks of mkdocs: the project's own pages become part of the site, and links to its sources become plain text."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from site_pages import commands  # noqa: E402

# Pages that lie outside of docs/, and where the site has them.
PROJECT_PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "examples/README.md": "project/examples.md",
    "tools/bench/RESULTS.md": "project/benchmarks.md",
}
_HOME = {"README.md": "README.md", "docs": "README.md", "examples": "project/examples.md"}

_LINK = re.compile(r"(?<!!)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w+) \w+$", re.MULTILINE)  # the second word is for the tests of the pages
_CODE = re.compile(r"(```.*?^```|^(?: {4}[^\n]*\n)+|`[^`\n]*`)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the project's pages to those of docs/."""
    for source, target in PROJECT_PAGES.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Write the commands into their page, and make links that leave docs/ lead to a page of the site."""
    if commands.MARKER in markdown:
        markdown = markdown.replace(commands.MARKER, commands.describe_commands())
    markdown = _FENCE.sub(r"```\1", markdown)
    here = page.file.src_uri
    origin = {target: source for source, target in PROJECT_PAGES.items()}.get(here, f"docs/{here}")
    pieces = _CODE.split(markdown)
    pieces[::2] = [_LINK.sub(lambda match: _relink(match, origin, here), piece) for piece in pieces[::2]]
    return "".join(pieces)


def _relink(match: re.Match[str], origin: str, here: str) -> str:
    text, link = match.groups()
    path, _, anchor = link.partition("#")
    if "://" in link or not path or link.startswith("mailto:"):
        return match[0]
    target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
    page = PROJECT_PAGES.get(target) or _HOME.get(target)
    if target in _HOME:
        anchor = ""  # the site has another page there
    if page is None and target.startswith("docs/"):
        page = target.removeprefix("docs/")
    if page is None:
        return text  # a source file, which the site does not have
    relative = posixpath.relpath(page, posixpath.dirname(here) or ".")
    return f"[{text}]({relative}{'#' + anchor if anchor else ''})"

"""The pages in `docs/`: their examples run and print what the pages say, and their links lead somewhere."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest
from support.documents import doc_blocks

PAGES = sorted(doc_blocks.PROJECT.glob("docs/**/*.md"))
LINKED = sorted([*doc_blocks.PROJECT.glob("*.md"), *doc_blocks.PROJECT.glob("examples/*.md"), *PAGES])


def name(page: Path) -> str:
    return str(page.relative_to(doc_blocks.PROJECT))


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the pages' lakes count as old enough to be identified by their times."""
    monkeypatch.setattr("parquet_bloom.file.identity.SETTLED_NS", -1)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_examples_print_what_the_page_says(page, tmp_path):
    doc_blocks.check(page, tmp_path)


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_links_lead_somewhere(page):
    text = page.read_text("utf-8")
    for link in doc_blocks.links(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(doc_blocks.PROJECT), f"{link} leads out of the project"
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in doc_blocks.anchors(target.read_text("utf-8")), f"{path or name(page)} has no #{anchor}"


def test_the_index_has_every_page():
    index = doc_blocks.PROJECT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in doc_blocks.links(index.read_text("utf-8"))}
    assert linked >= set(PAGES) - {index}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_sources_that_are_named_are_there(page):
    files = [f"/{path}" for path in doc_blocks.sources()]
    for named in doc_blocks.named_sources(page.read_text("utf-8")):
        assert any(fnmatch(path, f"*/{named}") for path in files), f"there is no {named}"

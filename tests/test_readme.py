"""The README's examples print what the README says; `doc_blocks` has how they are run."""

from support.documents import doc_blocks

README = doc_blocks.PROJECT / "README.md"


def test_the_first_screen_prints_what_it_says(tmp_path):
    assert list(doc_blocks.examples(README.read_text("utf-8")))
    doc_blocks.check(README, tmp_path)


def test_it_is_short():
    assert len(README.read_text("utf-8").splitlines()) <= 150

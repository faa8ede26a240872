"""Where pages stand in files of the format's drafts, whose filters may be at the beginning of their column chunks.

Some writers counted such a filter in its column chunk's size, others did not. The footer has no word for it: it says
where the first page is and how long the chunk, so that pages seem to reach into the next filter where it was counted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...metadata.footer import MAGIC, Footer


def page_sizes(footer: Footer, ends_of: Callable[[list[int]], list[int]]) -> NDArray[np.int64] | None:
    """How long the pages of each column chunk are where some sizes count filters; None where none does.

    That they do is believed only if it is so for the whole file: filters, pages and page indexes then stand without
    overlaps, and behind each of these column chunks the next thing begins at once, as it does not where the sizes count
    no filters.

    Parameters
    ----------
    footer : the file's.
    ends_of : where filters end that begin at some offsets, by their headers; the offset of one that has none.
    """
    chunks, first_pages = footer.chunks, footer.first_pages
    place, size = chunks["filter_offset"], chunks["compressed_size"]
    before = (place >= len(MAGIC)) & (place < np.minimum(first_pages, footer.start)) & (size > 0)
    literal = footer.data_ranges()
    if not before.any() or not (_begins_inside(place, literal) or (literal[:, 1] > footer.start).any()):
        return None
    inside = (place >= len(MAGIC)) & (place < footer.start)
    ends = place.copy()
    ends[inside] = ends_of(place[inside].tolist())
    leading = before & (ends == first_pages)
    starts = np.where(leading, place, first_pages)
    spans = np.stack([starts, starts + size], axis=1)[(starts > 0) & (size > 0)]
    others = np.stack([place, ends], axis=1)[~leading & (ends > place)]
    everything = np.concatenate([spans, others, footer.index_ranges()])
    everything = everything[np.argsort(everything[:, 0], kind="stable")]
    next_begins = np.append(everything[1:, 0], footer.start)
    disjoint = (everything[:, 1] <= next_begins).all()
    at_once = np.isin((place + size)[leading], next_begins).all() and (first_pages < place + size)[leading].all()
    return starts + size - first_pages if leading.any() and disjoint and at_once else None


def _begins_inside(places: NDArray[np.int64], ranges: NDArray[np.int64]) -> bool:
    """Whether any of the places is inside a range."""
    places = np.sort(places)
    return bool((np.searchsorted(places, ranges[:, 1]) > np.searchsorted(places, ranges[:, 0])).any())

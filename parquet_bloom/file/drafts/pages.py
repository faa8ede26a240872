"""Page sizes in files of the format's drafts, whose filters may be at the beginning of their column chunks.

Some writers included such a filter in its column chunk's size, others did not. The footer does not say which: it has
the first page's offset and the chunk's size, so that pages seem to overlap the next filter where it was included.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...metadata.footer import MAGIC, Footer


def page_sizes(footer: Footer, find_ends: Callable[[list[int]], list[int]]) -> NDArray[np.int64] | None:
    """Return the length of each column chunk's pages where some sizes include filters; None where none does.

    Sizes are taken to include filters only if this is consistent for the entire file: filters, pages and page indexes
    then do not overlap, and each of these column chunks is directly followed by something else, which is not the case
    where sizes do not include filters.

    Parameters
    ----------
    footer : the file's footer.
    find_ends : returns the ends of the filters at given offsets, by their headers; the offset if there is no header.
    """
    chunks, first_pages = footer.chunks, footer.first_pages
    offsets, sizes = chunks["filter_offset"], chunks["compressed_size"]
    before = (offsets >= len(MAGIC)) & (offsets < np.minimum(first_pages, footer.start)) & (sizes > 0)
    literal = footer.data_ranges()
    if not before.any() or not (_begins_inside(offsets, literal) or (literal[:, 1] > footer.start).any()):
        return None
    inside = (offsets >= len(MAGIC)) & (offsets < footer.start)
    ends = offsets.copy()
    ends[inside] = find_ends(offsets[inside].tolist())
    leading = before & (ends == first_pages)
    starts = np.where(leading, offsets, first_pages)
    spans = np.stack([starts, starts + sizes], axis=1)[(starts > 0) & (sizes > 0)]
    others = np.stack([offsets, ends], axis=1)[~leading & (ends > offsets)]
    everything = np.concatenate([spans, others, footer.index_ranges()])
    everything = everything[np.argsort(everything[:, 0], kind="stable")]
    next_starts = np.append(everything[1:, 0], footer.start)
    disjoint = (everything[:, 1] <= next_starts).all()
    chunk_ends = offsets + sizes
    adjacent = np.isin(chunk_ends[leading], next_starts).all() and (first_pages < chunk_ends)[leading].all()
    return starts + sizes - first_pages if leading.any() and disjoint and adjacent else None


def _begins_inside(offsets: NDArray[np.int64], ranges: NDArray[np.int64]) -> bool:
    """Return whether any of the offsets is inside a range."""
    offsets = np.sort(offsets)
    return bool((np.searchsorted(offsets, ranges[:, 1]) > np.searchsorted(offsets, ranges[:, 0])).any())

"""Reads of single pages of a column chunk.

`decompress` decompresses them, `lookup` reads and confirms page indexes, `rows` and `plain` decode pages, `plan`
selects pages with `rows`, and `reader` builds on all of them. `chunk_values` takes the values of all pages of a chunk,
for filters; `buffered_chunk` is independent.
"""

"""Reads of single pages of a column chunk.

`lookup` reads and confirms page indexes, `rows` and `plain` decode pages, `plan` selects pages with `rows`, and
`reader` builds on all of them; `buffered_chunk` is independent.
"""

"""Reads of single pages of a column chunk.

`lookup` reads and confirms page indexes, `plan` selects pages, `rows` and `plain` decode them, `reader` does it all.
"""

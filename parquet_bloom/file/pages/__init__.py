"""Single pages of a column chunk.

`plan` says which pages to read, `reader`, `plain` and `rows` decode them, `lookup` finds values by page indexes.
"""

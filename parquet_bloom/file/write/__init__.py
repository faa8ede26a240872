"""Writing, replacing and dropping filters.

`build` makes filters by `options`, `tail_layout` and then `rewrite` arrange them in a file, and `embed`, `drop` and
`write_table` are the public functions on top; `sweep` is independent.
"""

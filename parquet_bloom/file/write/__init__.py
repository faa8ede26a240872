"""Writing, replacing and dropping filters.

`build` makes filters, `tail_layout` and `rewrite` arrange them in a file; `embed`, `drop` and `write_table` are public.
"""

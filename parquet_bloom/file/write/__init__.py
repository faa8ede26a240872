"""Everything that writes filters.

`build` makes them, `tail_layout` and `rewrite` arrange them in a file; `embed`, `drop` and `write_table` are public.
"""

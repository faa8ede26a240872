"""Options that many commands share, and their completion by the shell.

`paths`, `table_completion` and `column_completion` come first, `common` builds on `column_completion`, `rows` on
`common`, `tables` and `keys` on these, and `predicate` and `lookups` on all of them.
"""

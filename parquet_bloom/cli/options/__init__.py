"""Options that many commands share, and their completion by the shell.

`paths`, `table_completion` and `column_completion` come first, `common` builds on `column_completion`, `tables` and
`keys` on these, and `predicate` on all of them.
"""

"""Options that many commands share, and their completion by the shell.

`paths` and `column_completion` come first, `common` builds on `column_completion`, and `predicate` on `common` and
`paths`.
"""

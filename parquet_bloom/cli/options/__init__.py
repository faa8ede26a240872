"""Options that several commands share, and their completion.

`paths`, `predicate` and `column_completion` build on `common`.
"""

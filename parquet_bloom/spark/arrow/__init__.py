"""Arrow data between Spark and this package.

`row_groups` and `positions` build on `convert`.
"""

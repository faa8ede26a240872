"""Arrow data between Spark and this package.

`row_groups` builds on `convert`.
"""

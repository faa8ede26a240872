"""Scans of Delta and Iceberg tables under Spark.

`predicate` adapts a condition, `plan` chooses files and says which of them Spark's own scan shows as the table does;
`native` is that scan, and `tasks` reads the others by this package in Spark's tasks.
"""

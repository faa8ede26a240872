"""Planning of a scan of the files that Spark lists: on the driver or on executors, with or without an index.

`parquet_columns`, `trust` and `orc_columns` decide which columns of a file Spark reads as they are stored, `scan`
evaluates footers and filters of those, `lake_index` and `distributed` do so with an index and on executors, and
`planner` chooses between them.
"""

"""The Python data source `parquet_bloom`.

`schema` infers types, `options` and `predicate` parse what the caller gives, `read` reads the row groups of a task,
`plan` lists files and plans tasks, and `datasource` connects them to Spark.
"""

"""The Python data source `parquet_bloom`.

`options` and `predicate` parse what the caller gives, `schema` infers types, `read` reads the row groups of a task,
`plan` lists files and plans tasks, and `datasource` connects them to Spark.
"""

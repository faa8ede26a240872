"""Delta tables: what a version consists of, by deltalake and by the log.

`log` reads the log's actions as they were written, `history` finds the version of a time, `vectors` reads deletion
vectors, `schema` knows names, types and features, `statistics` says which bounds are to be believed; `snapshot` puts
them together, and `open` is the public entry.
"""

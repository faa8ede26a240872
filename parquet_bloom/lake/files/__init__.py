"""The data files that an index covers: listed, hashed, recorded in a table, and checked to be unchanged.

`fetching` is below `hash_files`, which is below `listing`; `units` and `table_pages` are below `table`; and `liveness`
builds on `hash_files`, `listing` and `table`.
"""

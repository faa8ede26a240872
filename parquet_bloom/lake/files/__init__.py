"""The data files that an index covers: listed, hashed, recorded in a table, and checked to be unchanged.

`fetching` is below `hash_files`, which is below `listing`; `table_pages` is below `table`; and `liveness` builds on
`hash_files`, `listing` and `table`.
"""

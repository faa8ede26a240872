"""Readers of the rows that a plan selects: row groups and pages of Parquet files, and stripes of ORC files.

`row_group_reader`, `page_selection` and `row_group` are below `parquet`; `orc/` reads ORC files; `open` chooses between
the two, and `projection`, `row_ranges` and `reader` build on it. `batches` reads many local Parquet files together: by
`sparse` few of their rows, by `dense` many.
"""

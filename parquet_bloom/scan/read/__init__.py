"""Readers of the rows that a plan selects: row groups and pages of Parquet files, and stripes of ORC files.

`row_group_reader`, `page_selection` and `row_group` are below `parquet`; `orc_columns` and `orc_seek` are below `orc`;
`open` chooses between the two, and `projection`, `row_ranges` and `reader` build on it. `sparse` and `batches` read few
rows of many local Parquet files together.
"""

"""Decode columns of rows: `row_group_decoder` by pages or by columns, as `choose_decoder` says; `orc` reads ORC files.

`open` chooses between the formats, and `projection` says what is read of a file.
"""

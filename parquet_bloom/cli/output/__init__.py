"""Output of commands: tables, JSON, and rows in several formats.

`table` lays out rows, `formats` and `orc_rows` build on it, and `output`, which chooses the stream, on `formats`;
`row_files` writes rows to files, and `lake_rows` rows of a lake to either.
"""

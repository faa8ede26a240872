"""Output of commands: tables, JSON, and rows in several formats.

`values` formats single values and `table` lays out rows, `formats` and `orc_rows` build on `table`, and `output`, which
chooses the stream, on `formats`; `row_files` writes rows to files.
"""

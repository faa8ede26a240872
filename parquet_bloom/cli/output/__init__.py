"""Output of commands: tables, JSON, and rows in several formats.

`values` formats single values, `table` and `formats` rows; `output` chooses the stream.
"""

"""What commands print: tables, JSON, and rows in several formats.

`values` spells one value, `table` and `formats` many; `output` chooses the stream.
"""

"""ORC metadata: tail, stripes, schema, statistics, and their compression.

`messages`, `codecs` and `schema` come first, then `compression`, `stripes` and `row_positions`, then `tail` and
`validate_lengths`, then `statistics`.
"""

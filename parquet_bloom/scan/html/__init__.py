"""A plan as HTML: one self-contained page, and a smaller view for notebooks.

`details` and `states` come first, then `grid` and `summary`, then `svg`, then `curve` and `document`, then `page`, and
`notebook` last.
"""

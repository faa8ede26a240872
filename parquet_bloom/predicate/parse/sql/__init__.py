"""Predicates from SQL text.

`tokens` splits the text, `operands` and `lists` read operands, and `parser` builds the tree with all three.
`simple` builds the same tree for simple conditions, without sqlglot.
"""

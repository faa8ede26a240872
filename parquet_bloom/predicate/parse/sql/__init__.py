"""Predicates from SQL text: `tokens` checks, `operands` and `lists` read, `parser` builds the tree."""

"""Predicates from SQL text: `tokens` splits it, `operands` and `lists` read operands, `parser` builds the tree."""

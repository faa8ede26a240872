"""Variant columns, as pyarrow gives them: their text, paths within them, and the values at a path."""

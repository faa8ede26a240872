"""Rows that are deleted, by keys or by a predicate: in tables by one commit."""

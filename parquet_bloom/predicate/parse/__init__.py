"""Predicates from other notations: pyarrow expressions (`arrow`), filter lists (`dnf`) and SQL (`sql`).

They build on `predicate.tree`, not on each other.
"""

"""Predicates from other notations: pyarrow expressions (`arrow`), filter lists (`dnf`) and SQL (`sql`)."""

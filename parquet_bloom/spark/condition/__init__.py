"""Spark's conditions as predicate trees, and back: from SQL, Catalyst expressions, and Connect's messages."""

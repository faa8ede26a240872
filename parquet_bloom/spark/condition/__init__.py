"""Spark's conditions as predicate trees, and back: from SQL, Catalyst expressions, and Connect's messages.

`terms` and `literals` come first, then `comparison`, then the notations (`from_catalyst`, `from_sql`, `to_spark` and
then `from_connect`), then `condition`, and `for_orc` last.
"""

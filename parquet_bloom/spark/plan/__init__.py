"""Spark's query plans: which scans they have, with which conditions, and how a plan is rebuilt over fewer files.

`catalyst_plan` is below `current_time` and `native_row_groups`, and all three are below `classic`; `known_paths` is
below `open`; `connect` and `reread` are independent.
"""

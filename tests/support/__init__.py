"""Helpers of the tests; tests import them as `support.<folder>.<module>`.

Nothing here is a test. `oracle` is below `writers`, that below `engines`, `random_cases` and `malformed`; the other
folders stand beside them.
"""

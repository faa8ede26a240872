"""Utilities shared by all layers: logging, progress bars, threads, wording.

The modules are independent of each other; only `logs` needs other parts of the package, `errors` and `redaction`.
"""

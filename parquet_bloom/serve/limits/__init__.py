"""Limits of requests: bytes, time, paths, origins and workers.

The modules are independent of each other and build on `serve.errors`, `serve.settings` and `serve.values`.
"""

"""Limits of requests: bytes, time, paths, origins and workers."""

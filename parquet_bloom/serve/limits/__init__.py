"""What bounds a request: bytes, time, paths, origins and workers."""

"""Reading (`source`) and writing (`rewrite`) through the file systems of pyarrow and fsspec.

The two modules are independent of each other.
"""

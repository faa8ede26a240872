"""Reading and writing through the file systems of pyarrow and fsspec."""

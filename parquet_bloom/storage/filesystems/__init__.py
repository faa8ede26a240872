"""Files of pyarrow's and fsspec's file systems."""

"""Other engines that read Parquet, with the same queries as the package."""

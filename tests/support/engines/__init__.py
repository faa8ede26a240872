"""Other engines that read Parquet, asked the same questions as the package."""

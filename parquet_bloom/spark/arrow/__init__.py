"""Arrow data between Spark and this package."""

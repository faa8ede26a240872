"""Sessions of Spark, their settings and what their scans count."""

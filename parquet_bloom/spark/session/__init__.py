"""A Spark session: settings, paths, Hadoop file systems, its JVM, and when to leave a query to Spark."""

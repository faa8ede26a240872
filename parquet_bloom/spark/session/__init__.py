"""A Spark session: settings, paths, Hadoop file systems, its JVM, and when to leave a query to Spark.

`fallback`, `jvm`, `settings` and `connect` come first, then `driver_python`, `paths` and `fields`, then `hadoop`, and
`storage` last.
"""

"""Plans a scan of the files that Spark lists: on the driver or on executors, with or without an index."""

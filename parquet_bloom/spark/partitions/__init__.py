"""Partition columns as Spark infers them from folders' names."""

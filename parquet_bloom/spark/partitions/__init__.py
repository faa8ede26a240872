"""Partition columns as Spark infers them from folders' names.

`values` infers their types and `layout` holds the values of all files; neither builds on the other.
"""

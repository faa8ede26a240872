"""Reads the rows that a plan leaves: by row groups and pages of Parquet, and by stripes of ORC."""

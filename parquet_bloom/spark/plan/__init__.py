"""Spark's query plans: which scans they have, with which conditions, and how a plan is rebuilt over fewer files."""

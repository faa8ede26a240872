"""Jobs that do the same to many files on executors.

`packing` shares files out, `run` runs them, the others are particular jobs.
"""

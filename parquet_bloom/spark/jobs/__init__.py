"""Jobs that process many files on executors.

`packing` assigns files to tasks, `progress` watches a job, `run` runs one on files, and the others are particular jobs.
"""

"""Jobs that process many files on executors.

`packing` assigns files to tasks and `progress` watches a job, `run` builds on both, then `index_tasks` (with
`hash_slices`), and `index_job` last.
"""

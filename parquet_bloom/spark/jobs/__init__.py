"""Jobs that process many files on executors.

`packing` assigns files to tasks, `file_tasks` is what a task does with them, and `progress` watches a job; `run` builds
on these, then `index_tasks` (with `hash_slices`), and `index_job` last.
"""

"""Read the rows that a plan selects: tasks in several threads, in order, within a bound on memory.

`tasks` makes the tasks and opens their files; `reader` runs them: rows are located (`scan/locate`), then decoded
(`scan/decode`).
"""

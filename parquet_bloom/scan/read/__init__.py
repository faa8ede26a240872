"""Read the rows that a plan selects: tasks in several threads, in order, within a bound on memory.

`batch_planner` makes the tasks, `row_batch` reads one: rows are located (`scan/locate`), then decoded (`scan/decode`).
"""

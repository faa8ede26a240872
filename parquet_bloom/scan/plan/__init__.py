"""From files and a predicate to a plan, by levels of evidence: `planner` has the list of them, and a module each.

`files` opens what is left of the files: together where possible, by `statistics`, which asks `bloom_filter` where it is
in doubt; `files` itself and `objects` fetch what these need. What needs a closer look is planned one by one, with `orc`
for ORC files. `zone` builds on `zone_rows`.
"""

"""From files and a predicate to a plan, by levels of evidence: `planner` has the list of them, and a module each."""

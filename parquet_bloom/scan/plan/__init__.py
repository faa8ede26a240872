"""From files and a predicate to a plan, by levels of evidence: `plan_scan` has the list of them, each is a module."""

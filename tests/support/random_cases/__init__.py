"""Random lakes, predicates and queries that a seed decides."""

"""Jobs that process many files on executors."""

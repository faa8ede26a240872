"""Programs that run beside a test: writers that never stop, terminals, watchers of system calls."""

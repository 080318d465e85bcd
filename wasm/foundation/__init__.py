"""What all rooms stand on: errors, paths, terminal, signals, subprocesses, owners, cache."""

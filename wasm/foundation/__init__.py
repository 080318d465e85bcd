"""What all rooms stand on: errors, paths, the terminal, signals, subprocesses, owners, the cache."""

"""The process engine: local processes."""

"""Go's own tests on a variant."""

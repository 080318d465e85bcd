"""What ``nox -s`` offers, and the two rooms behind it: the matrix and its evidence."""

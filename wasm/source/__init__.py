"""From a git source to a variant's tree."""

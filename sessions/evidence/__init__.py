"""Evidence: what a variant's run recorded, and a baseline and a fixed run compared."""

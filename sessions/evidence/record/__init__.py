"""What a run writes down, how it is sealed, signed and read back."""

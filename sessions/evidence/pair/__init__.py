"""Two runs compared, and the bundle that holds them."""

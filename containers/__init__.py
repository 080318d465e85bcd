"""From module to testbed: gateway, upstream and their clean-up, as containers or processes."""

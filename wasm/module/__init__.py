"""From a tree to a module that a gateway can load."""

"""From source to module: resolve a plugin's source, apply the fix, build, inspect, adapt."""

"""The built-in fix for Higress #4396: rules, patch, regression tests, mutants."""

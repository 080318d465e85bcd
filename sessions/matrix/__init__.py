"""The matrix: cases as data, the oracle as pure functions, verdicts. Knows neither pytest nor Nox."""

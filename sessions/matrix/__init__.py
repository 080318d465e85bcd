"""The matrix: cases as data, a pure oracle, verdicts. Knows neither pytest nor Nox."""

"""Filtering: verdicts on documents; only the runner drops."""

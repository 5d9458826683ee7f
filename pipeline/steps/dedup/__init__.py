"""Dedup: which documents go, and for which of their duplicates."""

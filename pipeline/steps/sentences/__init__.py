"""Sentences: where they end, for the objectives that ask."""

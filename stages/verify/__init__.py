"""Verification: exact mechanics checks and the learning check."""

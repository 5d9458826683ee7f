"""Audit: all that is committed held to its digests and to the ledger."""

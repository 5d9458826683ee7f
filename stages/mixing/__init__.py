"""Mixing: which shard a document copy goes to, in which order, and on which side of the split."""

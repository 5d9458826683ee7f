"""Shard: the token store packed into the rows of a dataset."""

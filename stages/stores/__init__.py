"""Stores: where the objects of a run lie, a folder or a bucket, with the same keys and bytes."""

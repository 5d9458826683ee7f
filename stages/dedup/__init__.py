"""Deduplication: exact digests, MinHash-LSH candidates, verified pairs, survivors."""

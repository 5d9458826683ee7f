"""Verify: the rows of a dataset held to the token store, and a model that learns from them."""

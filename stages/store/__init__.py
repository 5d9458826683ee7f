"""Stores: the token store, the row shards and their manifest."""

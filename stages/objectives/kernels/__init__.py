"""Objectives compiled: the same columns as the plain functions of each objective, over whole shards."""

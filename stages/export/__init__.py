"""Exports: a dataset in the files of somebody else's trainer, one format a module."""

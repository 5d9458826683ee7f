"""Mixtures of objectives: all that the program knows of it."""

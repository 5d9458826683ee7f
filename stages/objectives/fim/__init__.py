"""Filling in the middle: all that the program knows of it."""

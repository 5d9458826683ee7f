"""Masked language modelling: all that the program knows of it."""

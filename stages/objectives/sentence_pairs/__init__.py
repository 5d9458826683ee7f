"""Pairs of sentences, NSP and SOP: all that the program knows of it."""

"""Span corruption: all that the program knows of it."""

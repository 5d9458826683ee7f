"""ELECTRA's replaced tokens: all that the program knows of it."""

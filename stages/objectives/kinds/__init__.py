"""The kinds of objectives: all that the program knows of each, in a module of its own."""

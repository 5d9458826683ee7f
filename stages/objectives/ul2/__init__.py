"""UL2's mixture of denoisers: all that the program knows of it."""

"""BART's denoising: all that the program knows of it."""

"""Scan: what is kept of each input file before anything is read of it."""

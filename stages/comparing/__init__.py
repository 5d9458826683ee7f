"""Comparing: tiny models of one budget on several datasets, asked the same questions."""

"""Tokenizers: proved, compared, chosen, extended and exported."""

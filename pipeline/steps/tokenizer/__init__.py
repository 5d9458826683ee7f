"""Tokenizer: trained on a balanced sample, or taken as it is."""

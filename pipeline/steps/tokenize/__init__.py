"""Tokenize: every kept document as ids, in the token store."""

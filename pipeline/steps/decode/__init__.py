"""Decode: the token store held to the texts."""

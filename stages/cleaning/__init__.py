"""Cleaning: raw text to the text that every later step sees."""

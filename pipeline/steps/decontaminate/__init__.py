"""Decontaminate: documents that hold items of evaluation sets."""

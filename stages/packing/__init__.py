"""Packing: documents to rows of one length."""

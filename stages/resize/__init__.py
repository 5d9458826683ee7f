"""Resize: the embeddings and the head of a checkpoint get rows for the ids of an extended tokenizer."""

"""Replay: the training documents of earlier runs, with the ids that these gave them."""

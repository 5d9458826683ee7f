"""Split: which documents are held out, and how many shards there are."""

"""Mix: how often the documents of each source and language are seen by a dataset."""

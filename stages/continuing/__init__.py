"""Models that go on from a checkpoint: trained on datasets, measured on held-out text."""

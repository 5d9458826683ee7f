"""Input files: which there are, where they are, how they are opened and fail."""

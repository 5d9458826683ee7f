"""Draw: epochs of a dataset written out."""

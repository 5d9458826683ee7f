"""Report: what a run did, as data, as a table and as a page."""

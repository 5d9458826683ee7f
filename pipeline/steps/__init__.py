"""Steps: one file each; what runs, over which units, and what is committed."""

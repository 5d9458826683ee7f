"""Pipeline: moves values; owns Ray, storage, commits and the command line."""

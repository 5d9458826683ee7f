"""A session: one call that works in a run, from the lock to the verdict."""

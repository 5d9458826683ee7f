"""What a run keeps of itself: files, commits, the log, the ledger."""

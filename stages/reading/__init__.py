"""Reading: files to streams of raw documents."""

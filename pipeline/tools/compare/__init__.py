"""Compare: models of one budget on datasets, asked about the same documents."""

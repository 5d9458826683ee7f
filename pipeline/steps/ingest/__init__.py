"""Ingest: input files to cleaned documents with ids, languages, digests and MinHash signatures."""

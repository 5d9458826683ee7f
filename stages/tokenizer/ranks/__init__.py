"""Ranks: files of byte-level BPE that number pieces and write no merges, as tiktoken and Mistral do."""

"""Tokenizer: balanced sample, training, special ids, lossless encoding, fairness."""

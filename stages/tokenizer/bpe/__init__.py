"""BPE in compiled code: the ids that SentencePiece gives, many times faster."""

"""Pre-tokenizers in compiled code: where texts are cut before a model merges anything."""

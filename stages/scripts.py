"""Scripts that are written without spaces between words, so that white space cuts no words there."""

import re

UNSPACED_RANGES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x19E0, 0x19FF),  # Khmer symbols
    (0x2E80, 0x2FD5),  # Han radicals
    (0x3005, 0x3005),  # Han iteration mark
    (0x3007, 0x3007),  # Han zero
    (0x3021, 0x3029),  # Han numerals
    (0x3038, 0x303B),  # Han numerals and marks
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),  # Katakana extensions
    (0x3400, 0x4DBF),  # Han extension A
    (0x4E00, 0x9FFF),  # Han
    (0xA9E0, 0xA9FF),  # Myanmar extension B
    (0xAA60, 0xAA7F),  # Myanmar extension A
    (0xF900, 0xFAFF),  # Han compatibility
    (0xFF66, 0xFF9F),  # Katakana, half width
    (0x1AFF0, 0x1B16F),  # Kana extensions
    (0x20000, 0x323AF),  # Han extensions B to H
)
"""First and last code points: Han, Kana, Thai, Lao, Khmer, Myanmar."""
UNSPACED = re.compile(f"([{''.join(f'{chr(a)}-{chr(b)}' for a, b in UNSPACED_RANGES)}])")
"""One character of these scripts."""

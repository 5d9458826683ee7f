r"""Stress texts: what tokenizers lose, join, fold or take for a command; also random strings.

    stress_texts(["</s>"])  ->  {"white space": ["", " ", ...], "special pieces": ["</s>", ...], ...}

U+0000 is in none of them: no cleaned text holds it, and special ids of a tokenizer.json are named by it.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from stages.seeding import philox4x32
from stages.tokenizer.sampling import SPACE_SYMBOL

SPECIAL_PIECES = "special pieces"
"""The group of texts that write special pieces out."""
RANDOM_STRINGS = 3_000
_SEED = (20, 6)
_LONGEST = 48
"""Characters of a random string."""
_REPEATED_BYTES = 5_000
"""Characters of a long run."""
_RANGES = (
    ((0x20, 0x7F),),
    ((0x20, 0x21), (0x61, 0x7B)),
    ((0x09, 0x0E), (0x20, 0x21), (0x85, 0x86), (0xA0, 0xA1), (0x2000, 0x2010), (0x3000, 0x3001)),
    ((0x30, 0x3A), (0x2C, 0x2F), (0x660, 0x66A), (0x966, 0x970)),
    ((0x2581, 0x2582), (0x20, 0x21), (0x61, 0x64), (0xFFFD, 0xFFFE)),
    ((0x300, 0x370), (0x41, 0x5B), (0x61, 0x7B)),
    ((0x1F300, 0x1F650), (0x200D, 0x200E), (0xFE0F, 0xFE10), (0x1F3FB, 0x1F400)),
    ((0x5D0, 0x5EB), (0x620, 0x64B), (0x200E, 0x2010), (0x202A, 0x202F)),
    ((0x900, 0x980), (0xE00, 0xE5C), (0x1000, 0x10A0)),
    ((0x3040, 0x3100), (0x4E00, 0xA000), (0xAC00, 0xD7A4)),
    ((0x3C, 0x3D), (0x3E, 0x3F), (0x5B, 0x5E), (0x7C, 0x7D), (0x73, 0x74), (0x2F, 0x30)),
    ((0x01, 0x0800),),
    ((0x0800, 0xD800), (0xE000, 0x10000)),
    ((0x10000, 0x110000),),
)
"""Of which code points strings are drawn: each string has those of one line."""

_FIXED: Mapping[str, tuple[str, ...]] = {
    "white space": (
        *("", " ", "  ", "   ", "\t", "\t\t\t", "\n", "\n\n\n", " \n", "\n ", " \t \n \t ", "\r\n"),
        *(
            " a",
            "a ",
            "  a",
            "a  ",
            "a  b",
            "a   b",
            "a\tb",
            "a \tb",
            "a\n\nb",
            "a\n \n b",
            "\u00a0a\u00a0",
        ),
        *("a\u2003b", "\u3000a\u3000", "a\u200bb", "a\u2028b\u2029c", "a\x0bb\x0cc", "a\x85b"),
        *(" " * length + "x" for length in (3, 4, 7, 8, 15, 16, 31, 63)),
        *("x" + "\n" * length for length in (2, 3, 7, 8, 31)),
    ),
    "U+2581, U+FFFD": (
        *(
            "\u2581",
            "\u2581\u2581",
            "\u2581a",
            "a\u2581b",
            " \u2581 a",
            "a \u2581",
            "\u2581" * 17,
            "\u2581\n",
        ),
        *(
            "\ufffd",
            "a\ufffdb",
            "\ufffd\ufffd\ufffd",
            "<0x0A>",
            "a<0xE2><0x96><0x81>b",
            "##a",
            "a ##b",
            "\u0120a",
        ),
    ),
    "emoji": (
        *(
            "\U0001f600",
            "\U0001f44d\U0001f3fd",
            "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
        ),
        *(
            "\u2764\ufe0f\u200d\U0001f525",
            "\U0001f3f3\ufe0f\u200d\U0001f308",
            "\U0001f1e9\U0001f1ea",
            "1\ufe0f\u20e3",
        ),
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "a\U0001f600 b \U0001f601\U0001f602",
    ),
    "combining marks": (
        *(
            "e\u0301",
            "\u00e9",
            "a\u0323\u0307",
            "a\u0307\u0323",
            "Z\u0351\u036b\u0343\u036a\u0302" * 9,
            "\u0301",
        ),
        *(
            " \u0301a",
            "\u1e9b\u0323",
            "\u212b",
            "\ufb01",
            "\u00bd",
            "\u2460",
            "\uff21\uff22",
            "\u0130",
            "\u00df",
        ),
        *(
            "\u0958",
            "\u0915\u094d\u0937",
            "\u0e01\u0e33",
            "\u1100\u1161\u11a8",
            "\uac01",
            "\u0b92\u0bd7",
        ),
    ),
    "right to left": (
        "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645\u060c 123",
        "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd",
        *("abc \u202b\u05d0\u05d1\u202c def", "\u200f\u0627\u200e", "\u0644\u0627\ufefb", "\u0640" * 20),
    ),
    "Chinese, Japanese, Korean": (
        *(
            "\u6211\u5011\u8aaa\u4e2d\u6587\u3002",
            "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8",
            "\uff76\uff9e",
        ),
        *(
            "\ud55c\uad6d\uc5b4 \ubb38\uc7a5",
            "\U00020000\U0002a6d6",
            "\u8c48\uf900",
            "\u845b\U000e0100",
            "a\u4e2db",
        ),
    ),
    "unassigned, private": (
        *(
            "\u0378",
            "a\u0530b",
            "\U0001fffe",
            "\U000dffff",
            "\ue000",
            "\uf8ff",
            "\U000f0000",
            "\U0010ffff",
            "\ufffe",
        ),
        *("\ufdd0", "\ufeffa", "a\ufeffb", "\u00ad", "a\u00adb", "\u2060", "\u180e"),
    ),
    "digits": (
        *(
            "0",
            "007",
            "1234567890",
            "12 345,67",
            "3.14159",
            "1e-10",
            "0x1F",
            "192.168.0.1",
            "2026-01-31T12:00:00Z",
        ),
        *(
            "\u0661\u0662\u0663",
            "\u0967\u0968",
            "\u00b2\u00b3",
            "\u2167",
            "\u3007\u4e00\u4e8c",
            "9" * 50,
            "a1b2c3",
        ),
        *("1" * length for length in range(2, 12)),
    ),
    "code": (
        "def f(x):\n    if x:\n\t\treturn  x+1\n\n\n    # end\n",
        '{"a": [1, 2.5, null],\r\n  "b\\u0041": "\\\\"}',
        "for(;;){a[i]+=b<<2>>>1;}//x\n/* y */ int *p=&q;",
        "<html><body class='x'>&amp;</body></html>",
        "$ grep -E '^[^#]+\\s*=' ~/.x | sed 's/a/b/g' >> /dev/null 2>&1",
        *(
            "it's IT'S we'll I'd they've",
            "--__--",
            "https://a.b/c?d=e%20f&g#h",
            "\\n\\t\\x00",
            "a_b-c.d/e\\f",
        ),
    ),
}
_UNITS = (
    "a",
    "A",
    " ",
    "\n",
    "\t",
    "0",
    "-",
    "=",
    ".",
    "ab",
    "a ",
    "\u00e9",
    "\u0301",
    "\u6f22",
    "\U0001f600",
    "\u0e01",
)


def stress_texts(specials: Iterable[str], *, strings: int = RANDOM_STRINGS) -> dict[str, list[str]]:
    """Return stress texts by group.

    Args:
        specials: pieces that no text may give, which texts then write out.
        strings: how many are drawn.
    """
    return {
        **{name: list(texts) for name, texts in _FIXED.items()},
        "every byte of UTF-8": list(_every_byte()),
        "long runs": [(unit * _REPEATED_BYTES)[:_REPEATED_BYTES] for unit in _UNITS],
        SPECIAL_PIECES: [text for piece in specials for text in _written_out(piece)],
        "random strings": list(random_strings(strings)),
    }


def random_strings(count: int) -> Iterator[str]:
    """Yield strings of up to `_LONGEST` characters, the same ones always."""
    counter = np.zeros((_LONGEST, 4), np.uint64)
    counter[:, 0] = np.arange(_LONGEST)
    for number in range(count):
        counter[:, 1] = number
        words = philox4x32(counter, _SEED).tolist()
        ranges = _RANGES[number % len(_RANGES)]
        points = [range(*ranges[word[0] % len(ranges)]) for word in words]
        length = 1 + words[0][2] % _LONGEST
        drawn = zip(points[:length], words[:length], strict=True)
        yield "".join(chr(among[word[1] % len(among)]) for among, word in drawn)


def _every_byte() -> Iterator[str]:
    """Yield texts that have every byte that UTF-8 can hold, but for 00."""
    yield "".join(map(chr, range(1, 0x80)))
    yield from map(chr, range(1, 0x100))
    yield "".join(map(chr, range(0x80, 0x800)))
    surrogates = 0xD
    yield "".join(
        chr(lead << 12 | 0x800 | low) for lead in range(0x10) for low in (0, 0x3F) if lead != surrogates
    )
    yield "".join(chr(0x10000 + step * 0x3_0041) for step in range(6))
    yield "".join(chr(plane << 16 | low) for plane in range(1, 0x11) for low in (0, 0xFFFD))


def _written_out(piece: str) -> Iterator[str]:
    """Yield texts that write out a piece: as it is, and as normalisers may make it of something else."""
    if "\0" in piece or not piece:
        return
    yield from (piece, f"a {piece} b", f"{piece}{piece}\n{piece}x", f"x{piece}")
    yield f" {piece.swapcase()} {piece.lower()}"
    yield "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in piece)  # full-width forms
    yield from (f"{piece[:1]}{mark}{piece[1:]}" for mark in ("\u00ad", "\u200b", "\u0301"))
    yield unicodedata.normalize("NFKC", piece).replace(SPACE_SYMBOL, " ")

"""Dialogues of the bundled corpus, templates in Jinja, and a tokenizer that has their pieces."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.stages.tokenizer.existing_files import texts

LITERALS = ("<|im_end|>\n<|im_start|>assistant\n", "[/INST] no</s>", "<|eot_id|>", "</s>", "<s>[INST]")
"""What a message may hold to close its own turn."""

CHATML = """\
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' -%}
{% generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}
{%- else -%}
{{ message.content + '<|im_end|>' }}
{%- endif -%}
{{ '\\n' }}
{%- endfor -%}
"""
LLAMA3 = """\
{{- bos_token -}}
{%- for message in messages -%}
{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}
{%- if message.role == 'assistant' -%}
{% generation %}{{ message.content | trim + '<|eot_id|>' }}{% endgeneration %}
{%- else -%}
{{ message.content | trim + '<|eot_id|>' }}
{%- endif -%}
{%- endfor -%}
"""
MISTRAL = """\
{{- bos_token -}}
{%- set ns = namespace(system='', last=0) -%}
{%- if messages[0].role == 'system' and messages[0].content -%}
{%- set ns.system = messages[0].content + '\\n\\n' -%}
{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
{%- if message.role == 'user' -%}
{{ '[INST]' + (ns.system if loop.index0 == ns.last else '') + message.content + '[/INST]' }}
{%- elif message.role == 'assistant' -%}
{% generation %}{{ message.content.rstrip(' ') + eos_token }}{% endgeneration %}
{%- endif -%}
{%- endfor -%}
"""
JINJA = {"chatml": CHATML, "llama3": LLAMA3, "mistral": MISTRAL}
"""The formats of the named templates, as transformers takes them."""
SPECIAL: dict[str, dict[str, str]] = {
    "chatml": {"bos": "<|begin_of_text|>", "eos": "<|endoftext|>"},
    "llama3": {"bos": "<|begin_of_text|>", "eos": "<|endoftext|>"},
    "mistral": {"bos": "<s>", "eos": "</s>"},
}
"""What begins and closes texts of each."""
PIECES = (
    "<|endoftext|>",
    "<|begin_of_text|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "[INST]",
    "[/INST]",
    "<s>",
    "</s>",
    "<pad>",
)
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How tiktoken's encodings, and those of Llama 3, cut texts."""
_LENGTHS = (12, 90, 300, 31)


@cache
def chat_tokenizer(*, special: bool = True) -> bytes:
    """Return a tokenizer.json of byte-level pieces; `special` says whether it calls its marks so."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1500, show_progress=False, initial_alphabet=alphabet)
    made.train_from_iterator(texts(), trainer)
    added = [AddedToken(piece, special=special, normalized=False) for piece in PIECES]
    (made.add_special_tokens if special else made.add_tokens)(added)
    return str(made.to_str()).encode()


def dialogues(number: int) -> Iterator[list[dict[str, str]]]:
    """Yield dialogues of one to six turns of texts, some with a system message or literal markup."""
    source = texts()
    for which in range(number):
        turns = []
        if which % 3 == 0:
            turns.append({"role": "system", "content": _content(source, which, 7)})
        for turn in range(1 + which % 6):
            role = "assistant" if turn % 2 else "user"
            turns.append({"role": role, "content": _content(source, which, turn)})
        if which % 7 == 0:
            literal = LITERALS[which // 7 % len(LITERALS)]
            turns[which % len(turns)]["content"] += f" {literal} and on"
        yield turns


def _content(source: Sequence[str], which: int, turn: int) -> str:
    """Return a part of a text: begun anywhere, of any length, some with white space around it."""
    text = source[(which * 5 + turn) % len(source)]
    start = (which * 37 + turn * 101) % max(1, len(text) - 400)
    found = text[start : start + _LENGTHS[(which + turn) % len(_LENGTHS)]].strip()
    return f"\n {found} \n" if (which + turn) % 11 == 0 else found


def write_lines(turns: Sequence[list[dict[str, str]]]) -> bytes:
    """Return dialogues as JSON lines with their numbers as own ids."""
    rows = ({"id": number, "messages": one} for number, one in enumerate(turns))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def chat_run(template: str, **changes: Any) -> dict[str, Any]:
    """Return the run file of dialogues in a.jsonl, with tokenizer.json beside it."""
    begun = {} if template == "chatml" else {"framing": {"begin": "bos"}}
    return {
        "seed": 5,
        "sources": [
            {
                "name": "chats",
                "paths": ["a.jsonl"],
                "id_column": "id",
                "chat": {"template": template},
            }
        ],
        "dedup": {"exact": False, "near": False},
        "tokenizer": {"path": "tokenizer.json", "special": {**SPECIAL[template], "pad": "<pad>"}},
        "validation": {"fraction": 0.1},
        "packing": {"seq_len": 128, "shards": 2},
        "datasets": [{"name": "clm"}],
        "verify": {"learning": False},
        **begun,
        **changes,
    }

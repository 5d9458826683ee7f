"""Small things that the small forms of measuring scripts read, made from the bundled corpus in seconds.

corpus/documents.jsonl   texts with `id` and `lang`, the shortest of each file
run.toml, run/           a run file over them, and its finished run
pairs.jsonl              pairs of its documents
tokenizer.json           byte-level BPE, trained on the texts
templates/chatml.jinja   a template of dialogues that says what is learned
old/, new/               a page of documentation in two versions
"""

import json
from itertools import islice, pairwise
from pathlib import Path

from contest_material import EXAMPLES, read_documents
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from pipeline.run_file.load import load_run_file
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session

RUN_FILE = """\
name = "small"

[[sources]]
name = "bundled"
paths = ["corpus/*.jsonl"]
id_column = "id"
language = { column = "lang" }

[ingest]
unit_size = "128KiB"

[tokenizer.train]
vocab_size = 2500

[validation]
fraction = 0.1

[packing]
seq_len = 128
shards = 2

[verify]
learning = false

[[datasets]]
name = "clm"

[[datasets]]
name = "mlm"
objective = { kind = "mlm" }
"""
DOCUMENTS = 20
"""Of each file of the bundled corpus."""
_LONGEST = 2_000
"""Characters of a text."""
EOS, PAD = "<|endoftext|>", "<pad>"
CHATML = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{%- if message.role == 'assistant' %}
{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}
{%- else %}
{{ message.content }}<|im_end|>
{%- endif %}
{% endfor -%}
"""


def make_small_material(folder: Path) -> None:
    """Make all of it in a new folder."""
    (folder / "corpus").mkdir(parents=True)
    records = small_records()
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "corpus" / "documents.jsonl").write_text(lines, encoding="utf-8")
    texts = [record["text"] for record in records]
    (folder / "tokenizer.json").write_text(trained_tokenizer(texts), encoding="utf-8")
    (folder / "templates").mkdir()
    (folder / "templates" / "chatml.jinja").write_text(CHATML, encoding="utf-8")
    (folder / "run.toml").write_text(RUN_FILE, encoding="utf-8")
    request = RunRequest(load_run_file(folder / "run.toml"), folder, folder / "run", workers=0)
    run_session(request, stream=None)
    pairs = [{"a": a["id"], "b": b["id"]} for a, b in pairwise(records)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    write_versions(folder, texts)


def small_records() -> list[dict[str, str]]:
    """Return the first texts of each file of the bundled corpus that are short."""
    found = []
    for path in sorted((EXAMPLES / "corpus").glob("*/*.jsonl.*")):
        documents = (one for one in read_documents(path) if len(one.text) <= _LONGEST)
        for number, one in enumerate(islice(documents, DOCUMENTS)):
            name = f"{path.name.partition('.')[0]}-{number}"
            found.append({"id": name, "text": one.text, "lang": one.language})
    return found


def trained_tokenizer(texts: list[str]) -> str:
    """Return a tokenizer.json of byte-level BPE."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=alphabet, show_progress=False, special_tokens=[EOS, PAD]
    )
    tokenizer.train_from_iterator(texts, trainer)
    return str(tokenizer.to_str())


def write_versions(folder: Path, texts: list[str]) -> None:
    """Write a page of some sections, and the same page with every tenth word another one."""
    for version in ("old", "new"):
        sections = []
        for number, text in enumerate(texts[:40]):
            words = text.split()[:120]
            if version == "new":
                words = [f"{word}s" if place % 10 == 0 else word for place, word in enumerate(words)]
            title = f"Section {number}"
            sections.append(f"{title}\n{'=' * len(title)}\n\n{' '.join(words)}\n")
        (folder / version).mkdir()
        (folder / version / "page.txt").write_text("\n".join(sections), encoding="utf-8")

"""Options of `shardmill tokenizer` that several commands have, or that need many words."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import local, no_url
from stages.resize.row_method import RowMethod

ParallelOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of LANG.txt; line N of each is the same sentence. [default: the bundled"
        " declarations of human rights]",
        callback=no_url,
    ),
]
ReferenceOption = Annotated[
    str, typer.Option(metavar="LANG", help="The language that others are compared with.")
]
SpecialOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ROLE=PIECE",
        help="A special id that is not found by itself, by piece or number: eos=</s>; may be given"
        " again.",
    ),
]
RowsOption = Annotated[
    RowMethod,
    typer.Option(
        help="What the rows of new ids hold: pieces, the mean of the old pieces of the same text;"
        " mean, the mean of all old rows; normal, drawn around that mean; random, as before any"
        " training."
    ),
]
AlphasOption = Annotated[
    str,
    typer.Option(
        metavar="A,...",
        help="Values of tokenizer.train.alpha to try: 1 draws the sample as the corpus is; lower"
        " values give small languages more of it.",
    ),
]
TensorOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A tensor with a row for each id, if they are not found by name; may be given again.",
    ),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Whose pattern and special tokens a file of tiktoken's ranks has, if the program does"
        " not know the file: a name as in tokenizer.tiktoken.encoding, such as cl100k_base.",
    ),
]
OldTextOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH",
        help="Text whose tokens should stay, like --text. [default: the bundled corpus]",
        callback=no_url,
    ),
]
LossTextOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH",
        help="Measure the loss on this text before and after; only if CHECKPOINT is a folder of"
        " transformers. A file that is one text, or JSON lines with 'text' (.jsonl); may be given"
        " again.",
        callback=no_url,
    ),
]
TextsRunOption = Annotated[
    Path | None,
    typer.Option(
        "--run",
        metavar="DIR",
        help="Folder of a run of this file that got as far as its kept texts; only read."
        " [default: a run in a temporary folder]",
        callback=local,
    ),
]
NewTextOption = Annotated[
    list[Path],
    typer.Option(
        metavar="PATH",
        help="New text: a folder or file, LANG.txt or *.jsonl with text and lang; may be given again.",
        callback=no_url,
    ),
]

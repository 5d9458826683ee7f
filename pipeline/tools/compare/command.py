"""The command `shardmill compare`: tiny models of its own, or models of transformers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.commands.options import AsJson, Quiet, local, no_url, progress, rate, whole
from stages.errors import ConfigError

if TYPE_CHECKING:
    from stages.continuing.settings import ContinueSettings

SHOWN_DEFAULTS = {"learning_rate": 3e-4, "step_tokens": 4_096, "evaluation_tokens": 50_000}
"""Those of ContinueSettings, written again so that no command imports pydantic to show its options."""
Evaluations = Annotated[
    list[str] | None,
    typer.Option(
        "--evaluate",
        metavar="NAME=DIR",
        help="With --from: a dataset's folder, RUN/datasets/NAME, on whose validation split losses are"
        " measured, or DIR:source=SOURCE or DIR:language=LANGUAGE for a part of it; may be given again."
        " [default: the first dataset of every run]",
        callback=no_url,
    ),
]
Sequences = Annotated[
    list[str] | None,
    typer.Option(
        "--sequence",
        metavar="NAME,NAME",
        help="With --from: datasets of one run that are trained on one after the other, each its part of"
        " the tokens; may be given again.",
    ),
]
LearningRate = Annotated[
    float | None,
    typer.Option(
        parser=rate,
        metavar="R",
        help=f"With --from: the highest learning rate. [default: {SHOWN_DEFAULTS['learning_rate']}]",
    ),
]
StepTokens = Annotated[
    int | None,
    typer.Option(
        parser=whole(1),
        metavar="N",
        help=f"With --from: tokens of a training step. [default: {SHOWN_DEFAULTS['step_tokens']}]",
    ),
]
Evaluated = Annotated[
    int | None,
    typer.Option(
        parser=whole(1),
        metavar="N",
        help="With --from: most tokens that each loss is measured on. [default:"
        f" {SHOWN_DEFAULTS['evaluation_tokens']}]",
    ),
]


Datasets = Annotated[
    list[str] | None,
    typer.Option("--dataset", metavar="NAME", help="A dataset, or several. [default: all]"),
]
Seeds = Annotated[
    int, typer.Option(parser=whole(1, 100), metavar="K", help="Models of each dataset, 1 to 100.")
]
Start = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="DIR",
        help="Folder of a model of transformers to go on from, with config.json and weights; without"
        " weights, they are drawn. [default: tiny models of this program]",
        callback=local,
    ),
]
Save = Annotated[
    bool,
    typer.Option(
        "--save",
        help="With --from: keep the trained models, in weights/ of the results, for transformers.",
    ),
]
ResultFolder = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="PATH",
        help="Folder of the results. [default: DIR/compare]",
        callback=local,
    ),
]


def compare(  # noqa: PLR0913  # one parameter an option
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="Folders of runs.", callback=local)
    ],
    datasets: Datasets = None,
    tokens: Annotated[
        int, typer.Option(parser=whole(1_000), metavar="N", help="Tokens that each model reads.")
    ] = 500_000,
    seeds: Seeds = 1,
    start: Start = None,
    evaluations: Evaluations = None,
    sequences: Sequences = None,
    learning_rate: LearningRate = None,
    step_tokens: StepTokens = None,
    evaluation_tokens: Evaluated = None,
    save: Save = False,  # noqa: FBT002  # typer's way
    output: ResultFolder = None,
    quiet: Quiet = False,  # noqa: FBT002  # typer's way
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Train models on datasets, alike, and compare what they know."""
    numbers = {
        "learning_rate": learning_rate,
        "step_tokens": step_tokens,
        "evaluation_tokens": evaluation_tokens,
    }
    if start is None:
        asked = {"evaluate": evaluations, "sequence": sequences, "save": save, **numbers}
        if strangers := [name for name, value in asked.items() if value]:
            raise ConfigError(
                f"--{strangers[0].replace('_', '-')}: is for models that go on from a checkpoint; name"
                " its folder with --from, or leave it out"
            )
        from pipeline.tools.compare.compare import compare_datasets
        from pipeline.tools.compare.page import print_comparison
        from stages.comparing.settings import CompareSettings

        tiny = CompareSettings(tokens=tokens, seeds=seeds)
        compared = compare_datasets(
            folders, tiny, datasets=datasets or (), output=output, stream=progress(quiet=quiet)
        )
        print_comparison(compared, as_json=as_json)
        return
    from pipeline.tools.compare.continued import compare_continued
    from pipeline.tools.compare.continued_page import print_continued

    given = {name: value for name, value in numbers.items() if value is not None}
    continued = compare_continued(
        folders,
        _settings({**given, "tokens": tokens, "seeds": seeds}),
        start=start,
        datasets=datasets or (),
        sequences=[tuple(one.split(",")) for one in sequences or ()],
        evaluations=evaluations or (),
        output=output,
        save=save,
        stream=progress(quiet=quiet),
    )
    print_continued(continued, as_json=as_json)


def _settings(given: dict[str, float | int]) -> "ContinueSettings":
    """Return the settings of the command line."""
    from pydantic import ValidationError

    from pipeline.run_file.faults import what_must_be
    from stages.continuing.settings import ContinueSettings

    try:
        return ContinueSettings.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]).replace("_", "-")
        raise ConfigError(f"--{name} {first['input']}: {what_must_be(first)}") from error

"""The command line: parses, calls one function; `pipeline.commands.boundary` makes one line of an error.

Exit codes: 0 done; 1 unexpected error; 2 usage, config or input; 3 a check or gate failed; 75 stopped,
run again to resume; 130 Ctrl-C, likewise; 137 killed by the system, likewise.
"""

import os
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.commands.examples import examples_of
from pipeline.commands.options import (
    AsJson,
    Overrides,
    Quiet,
    RunFileArgument,
    Verbose,
    integer,
    local,
    progress,
    share,
    some_share,
    whole,
)
from pipeline.compare_cli import compare
from pipeline.export_cli import FORMATS_HELP, export
from pipeline.init_cli import init
from pipeline.main import main
from pipeline.tokenizer_cli import tokenizer_app
from stages.errors import VerificationError

if TYPE_CHECKING:
    from pipeline.report.content import RunReport, VerdictContent

app = typer.Typer(
    name="shardmill",
    help="Turns a raw text corpus into verified, memory-mapped training shards, on Ray.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(epilog=examples_of("init"))(init)
app.add_typer(tokenizer_app)


Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder of the run.", callback=local)
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.", callback=local)]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        parser=whole(0),
        metavar="N",
        help="Ray actors; 0 runs in this process. [default: cores]",
    ),
]
Address = Annotated[str | None, typer.Option("--address", help="Join the Ray cluster there, or 'auto'.")]


@app.command(epilog=examples_of("plan"))
def plan(
    run_file: RunFileArgument,
    output: Output,
    sample: Annotated[
        float | None,
        typer.Option(
            parser=some_share,
            metavar="SHARE",
            help="Forecast removals, tokens, time, memory and disk from a share of the inputs: 0.01.",
        ),
    ] = None,
    overrides: Overrides = None,
    quiet: Quiet = False,  # noqa: FBT002  # typer's way
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Show what a run would do, and why; change nothing."""
    from pipeline.commands import api
    from pipeline.report.forecast import print_forecast, require_room
    from pipeline.report.terminal import print_plan

    if sample is None or not as_json:
        print_plan(api.plan(run_file, output, settings=overrides or ()), as_json=as_json)
    if sample is not None:
        settings = overrides or ()
        found = api.forecast(
            run_file, output, share=sample, settings=settings, stream=progress(quiet=quiet)
        )
        print_forecast(found, as_json=as_json)
        require_room(found)


@app.command(epilog=examples_of("run"))
def run(  # noqa: PLR0913  # one parameter an option
    run_file: RunFileArgument,
    output: Output,
    workers: Workers = None,
    address: Address = None,
    until: Annotated[
        str | None, typer.Option(metavar="STEP", help="Stop after this step, such as dedup.")
    ] = None,
    replace: Annotated[  # noqa: FBT002  # typer's way
        bool, typer.Option("--replace", help="Redo what was made with other settings or is damaged.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            parser=whole(1), metavar="N", help="A trial: read the first N documents of each source."
        ),
    ] = None,
    overrides: Overrides = None,
    quiet: Quiet = False,  # noqa: FBT002  # typer's way
    verbose: Verbose = False,  # noqa: FBT002  # typer's way
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Run, or resume: what is committed is not done again."""
    from pipeline.commands import api
    from pipeline.report.terminal import print_report

    report = api.run(
        run_file,
        output,
        workers=workers,
        address=address,
        until=until,
        replace=replace,
        limit=limit,
        settings=overrides or (),
        stream=progress(quiet=quiet),
        verbose=verbose,
    )
    print_report(report, as_json=as_json)
    _require_pass(report)


@app.command(epilog=examples_of("status"))
def status(
    folder: Folder,
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Show how far a run is."""
    from pipeline.planning.earlier import generation_folders
    from pipeline.report.status import print_status
    from pipeline.session.session import known_steps
    from pipeline.system.disk_faults import disk_faults

    with disk_faults(folder):
        folders = [folder, *generation_folders(folder)]
        print_status({one: known_steps(one) for one in folders}, as_json=as_json)


@app.command(epilog=examples_of("verify"))
def verify(
    folder: Folder,
    workers: Workers = None,
    address: Address = None,
    full: Annotated[bool, typer.Option("--full", help="Train further models: verify.full.")] = False,  # noqa: FBT002  # typer's way
    quiet: Quiet = False,  # noqa: FBT002  # typer's way
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Check the datasets of a finished run again, from their files."""
    from pipeline.commands import api
    from pipeline.report.terminal import print_report

    report = api.verify(
        folder, workers=workers, address=address, full=full, stream=progress(quiet=quiet)
    )
    print_report(report, as_json=as_json)
    _require_pass(report)


@app.command(
    short_help="Show a row, or the largest clusters of duplicates.", epilog=examples_of("inspect")
)
def inspect(  # noqa: PLR0913  # one parameter an option
    folder: Folder,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="The dataset of the row. [default: the only one]")
    ] = None,
    row: Annotated[int, typer.Option(parser=integer, metavar="N", help="The row, in stored order.")] = 0,
    split: Annotated[str, typer.Option(metavar="SPLIT", help="train or validation.")] = "train",
    epoch: Annotated[
        int, typer.Option(parser=integer, metavar="E", help="The epoch it is drawn for.")
    ] = 0,
    clusters: Annotated[  # noqa: FBT002  # typer's way
        bool,
        typer.Option("--clusters", help="Show the largest clusters of duplicates instead of a row."),
    ] = False,
    document: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Say what became of a document: its id, or PATH:LINE of a record."
        ),
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Show a row in readable form, the largest clusters of duplicates, or the fate of a document."""
    from pipeline.commands import api
    from pipeline.commands.chosen import only_dataset
    from pipeline.report.clusters import print_clusters
    from pipeline.report.fate import print_fate
    from pipeline.report.inspection import print_row

    if document is not None and clusters:
        raise typer.BadParameter("give --clusters or --document, not both", param_hint="--clusters")
    if document is not None:
        print_fate(api.find_document(folder, document), as_json=as_json)
        return
    if clusters:
        print_clusters(api.duplicates(folder), as_json=as_json)
        return
    chosen = dataset or only_dataset(folder, also=", or give --clusters or --document")
    print_row(api.inspect(folder, chosen, split=split, row=row, epoch=epoch), as_json=as_json)


app.command(short_help="Write a dataset in the file format of a trainer.", epilog=examples_of("export"))(
    export
)


@app.command(
    short_help="Tokenize texts for a trainer, without deduplication.", epilog=examples_of("quick")
)
def quick(  # noqa: PLR0913  # one parameter an option
    paths: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Files or globs of texts, or URLs.")
    ],
    tokenizer: Annotated[
        Path, typer.Option(metavar="FILE", help="A SentencePiece .model, or a tokenizer.json.")
    ],
    format_: Annotated[str, typer.Option("--format", metavar="FORMAT", help=FORMATS_HELP)],
    to: Annotated[Path, typer.Option(metavar="PATH", help="Folder of the export.", callback=local)],
    text_column: Annotated[str, typer.Option(metavar="NAME", help="The field of the text.")] = "text",
    seq_len: Annotated[
        int | None,
        typer.Option(parser=whole(2), metavar="N", help="Tokens in a row, of formats that hold rows."),
    ] = None,
    validation: Annotated[
        float,
        typer.Option(parser=share, metavar="SHARE", help="Share of the documents that is held out."),
    ] = 0.01,
    special: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE=PIECE", help="A special id, by piece or number: eos=</s>."),
    ] = None,
    framing: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET", help="What stands around documents: gpt2, llama, bert, tokenizer."
        ),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the run. [default: PATH.work]", callback=local),
    ] = None,
    workers: Workers = None,
    replace: Annotated[  # noqa: FBT002  # typer's way
        bool, typer.Option("--replace", help="Redo what other texts or options made.")
    ] = False,
    quiet: Quiet = False,  # noqa: FBT002  # typer's way
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Tokenize texts with an existing tokenizer and write a trainer's files, without deduplication."""
    from pipeline.commands.quick import QuickRequest, quick_export
    from pipeline.report.terminal import print_quick

    request = QuickRequest(
        tuple(paths),
        tokenizer,
        format_,
        to,
        text_column=text_column,
        seq_len=seq_len,
        validation=validation,
        special=tuple(special or ()),
        framing=framing,
        work=work,
        workers=_cores() if workers is None else workers,
        replace=replace,
    )
    print_quick(quick_export(request, stream=progress(quiet=quiet)), as_json=as_json)


app.command(epilog=examples_of("compare"))(compare)


@app.command(epilog=examples_of("schema"))
def schema(
    as_json: AsJson = False,  # noqa: ARG001, FBT002  # it is JSON in any case
) -> None:
    """Print the JSON schema of the run file."""
    from pipeline.report.plain import print_json
    from pipeline.run_file.schema import run_file_schema

    print_json(run_file_schema())


def _version(value: bool) -> None:  # noqa: FBT001  # typer's way
    if value:
        typer.echo(f"shardmill {version('shardmill')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[  # noqa: FBT002  # typer's way
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Turns a raw text corpus into verified, memory-mapped training shards, on Ray."""


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _require_pass(report: "RunReport") -> None:
    for later in report.get("generations", {}).values():
        _require_pass(later)
    failed = [
        f"{name}{_suspicion(verdict)}"
        for name, verdict in report["verify"].items()
        if not verdict["passed"]
    ]
    findings = (report.get("audit") or {"findings": []})["findings"]
    if findings:
        failed = ["files of the run (run again with --replace to repair them)", *failed]
    if failed:
        raise VerificationError(f"verify: FAIL: {', '.join(failed)}; see the findings above")


def _suspicion(verdict: "VerdictContent") -> str:
    """Say of a verdict that no exact check failed, if it is a loss that alike documents may give."""
    from pipeline.report.suspicions import LEAK, failed_gates

    learning = verdict["learning"]
    if verdict["findings"] or not learning:
        return ""
    failed = [gate["name"] for gate in failed_gates(verdict)]
    if failed == [LEAK]:
        return f" (the exact checks passed, but the loss is so low that the gate {LEAK} failed)"
    return ""


if __name__ == "__main__":
    main()

"""The ledger of a run: a table of flows for each step, each held to the step before it.

    ledger/STEP.parquet   for each unit: what came in, what went out, and what is gone, by reason

Within a unit input + added = output + gone; what comes into a unit is what the step before let out of
it. The tables are committed with their steps. `pipeline.session.audit` counts the evidence again and
compares.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stages.errors import FormatError, VerificationError, is_of_the_system
from stages.ledger import Flow, Tally, total_flow
from stages.stores.mounts import here

_AMOUNTS = ("documents", "bytes", "tokens", "rows")
_FLOWS = pa.schema(
    [
        pa.field("unit", pa.string(), nullable=False),
        pa.field("side", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=name != "documents") for name in _AMOUNTS),
        pa.field("ids", pa.string(), nullable=False),
    ]
)
"""One row for each side of a unit: `input`, `output`, or `gone` or `added` with its reason."""
_NAMED = 3


def ledger_key(step: str) -> str:
    """Return the key of a step's table of flows."""
    return f"ledger/{step}.parquet"


def write_flows(path: Path, flows: Mapping[str, Flow]) -> None:
    """Write the flows of a step's units, in their order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(flow_table(flows), path, compression="zstd")


def flow_table(flows: Mapping[str, Flow]) -> pa.Table:
    """Return the table of the flows of a step's units."""
    rows = [
        {"unit": unit, "side": side, "reason": reason, **tally.model_dump()}
        for unit, flow in flows.items()
        for side, reason, tally in _sides(flow)
    ]
    return pa.Table.from_pylist(rows, schema=_FLOWS)


def read_flows(root: Path, step: str) -> dict[str, Flow]:
    """Return the flows of a step's units.

    Raises:
        FormatError: the table is missing or damaged.
    """
    path = here(root / ledger_key(step))
    sides: dict[str, dict[str, Tally]] = {}
    reasons: dict[str, dict[str, dict[str, Tally]]] = {}
    try:
        for row in pq.read_table(path, schema=_FLOWS, use_threads=False).to_pylist():
            unit, side, reason = row.pop("unit"), row.pop("side"), row.pop("reason")
            tally = Tally.model_validate(row)
            if side in ("gone", "added"):
                reasons.setdefault(unit, {}).setdefault(side, {})[reason] = tally
            else:
                sides.setdefault(unit, {})[side] = tally
        return {unit: Flow(**reasons.get(unit, {}), **both) for unit, both in sides.items()}
    except (OSError, pa.ArrowException, ValueError, TypeError) as error:
        if is_of_the_system(error):
            raise
        raise FormatError(
            f"{path}: cannot be read: {error}; run again with --replace to make step {step} anew"
        ) from error


def let_out(root: Path, step: str) -> dict[str, Tally]:
    """Return what a finished step let out of each of its units.

    Raises:
        FormatError: as `read_flows`.
    """
    return {unit: flow.output for unit, flow in read_flows(root, step).items()}


def checked_flow(
    step: str, flows: Mapping[str, Flow], before: Mapping[str, Tally] | None = None
) -> Flow:
    """Check that the flows of a step's units add up, and return their sum.

    Args:
        step: for messages.
        flows: of each unit.
        before: what the step before let out of each unit; None where no step came before, or where its
            units are others: then compare totals with `checked_total`.

    Raises:
        VerificationError: documents, bytes, tokens or rows are lost, repeated or exchanged.
    """
    faults = list(flow_faults(step, flows, before))
    if faults:
        more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        raise VerificationError(f"{'; '.join(faults[:_NAMED])}{more}; {_WAY_OUT}")
    return total_flow(flows.values()) or Flow(input=Tally(), output=Tally())


def checked_total(step: str, total: Flow, before: Tally) -> Flow:
    """Check that all that came into a step is what the step before let out, and return the flow.

    Raises:
        VerificationError: it is not.
    """
    differences = total.input.differences(before)
    if differences:
        raise VerificationError(
            f"step {step}: received {', '.join(differences)} that the step before let out; {_WAY_OUT}"
        )
    return total


def flow_faults(
    step: str, flows: Mapping[str, Flow], before: Mapping[str, Tally] | None
) -> Iterator[str]:
    """Yield what does not add up in a step, a sentence for each fault."""
    for unit, flow in flows.items():
        for fault in flow.faults():
            yield f"step {step}, unit {unit}: received {fault}"
    for unit in sorted(flows.keys() | before.keys()) if before is not None else ():
        if unit not in flows or unit not in (before or {}):
            known, unknown = (
                ("the step before", step) if unit not in flows else (step, "the step before")
            )
            yield f"step {step}, unit {unit}: known to {known}, unknown to {unknown}"
            continue
        differences = flows[unit].input.differences((before or {})[unit])
        if differences:
            let_out = "that the step before let out"
            yield f"step {step}, unit {unit}: received {', '.join(differences)} {let_out}"


_WAY_OUT = (
    "files of the run were changed, or this is a bug: `shardmill verify` names the files that are not"
    " what was committed, and a run with --replace makes their steps anew"
)


def _sides(flow: Flow) -> Iterator[tuple[str, str, Tally]]:
    yield "input", "", flow.input
    yield "output", "", flow.output
    for reason, tally in flow.gone.items():
        yield "gone", reason, tally
    for reason, tally in flow.added.items():
        yield "added", reason, tally

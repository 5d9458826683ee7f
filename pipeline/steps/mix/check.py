"""Verify, the part of the mix: its table is what the token store and the run's settings give."""

from pipeline.engine.tasks import Workspace
from pipeline.steps.findings import CheckRecord, found_in, unreadable
from pipeline.steps.mix.choose import MixChoice, planned_again
from pipeline.steps.mix.intervals import mix_key, read_classes
from stages.errors import ConfigError, DataError
from stages.findings import Finding
from stages.mixing.drawn import DrawnSource


class MixChecked(CheckRecord):
    """What was found of a mix, and what the token store says that it is to hold."""

    drawn: tuple[DrawnSource, ...] = ()
    """What is asked of each source with epochs."""
    largest: int | None = None
    """Tokens of the largest training document."""


def check_mix(workspace: Workspace, work: MixChoice) -> MixChecked:
    """Count the documents of the token store again, plan the mix again, and compare."""
    key = mix_key(work.dataset)
    try:
        found = read_classes(workspace, work.dataset)
        planned, largest = planned_again(workspace, work)
    except (DataError, ConfigError, OSError) as error:
        return MixChecked(findings=found_in([(key, unreadable(error))]))
    if found == planned.classes:
        return MixChecked(findings=(), drawn=planned.drawn, largest=largest)
    differ = sorted(one.order for one in set(found).symmetric_difference(planned.classes))
    source, language, level = differ[0]
    message = (
        f"{len(differ):,} of its classes are not as the token store and the settings give them; the"
        f" first is of source {source!r}, language {language!r} and level {level}"
    )
    return MixChecked(findings=found_in([(key, Finding("mix", message))]))

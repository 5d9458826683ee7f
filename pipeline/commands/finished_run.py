"""A finished run as a value: what a notebook asks of it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from pipeline.report.clusters import ClusterContent, duplicates
from pipeline.report.inspection import RowContent, inspect
from pipeline.report.shown_rows import ShownRow, shown_row
from pipeline.report.template import page_template
from pipeline.state.places import opened_for
from pipeline.steps.run_folder import RunFolder
from pipeline.system.disk_faults import disk_faults
from pipeline.system.printable import as_known
from stages.errors import ConfigError
from stages.loading.dataset import ShardDataset
from stages.loading.grown import open_dataset

if TYPE_CHECKING:
    from pipeline.report.report import RunReport


class FinishedRun:
    """A run that has a report.

    >>> run = shardmill.open_run("out")
    >>> run.verdicts
    {'clm': 'pass'}
    """

    def __init__(self, folder: Path) -> None:
        """Read the report of a run.

        Args:
            folder: of the run.

        Raises:
            ConfigError: there is no report there.
        """
        folder = opened_for(self, folder, key="folder")
        self.folder = folder
        """Of the run; of a run in a store, its tree on this machine."""
        file = folder / "report" / "report.json"
        place = as_known(str(file))
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if any("verdict" not in one for one in content["verify"].values()):
                raise ConfigError(
                    f"{place}: an earlier version of Shardmill wrote it; `shardmill verify {folder}`"
                    " writes it anew"
                )
        except FileNotFoundError as error:
            raise ConfigError(
                f"{place}: no such file; a run writes it when it ends or is stopped: run it first"
            ) from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{place}: not the JSON of a report; `shardmill verify {folder}` writes it anew"
            ) from error
        self.report: RunReport = content
        """All numbers of `report/report.json`."""

    @property
    def page(self) -> Path:
        """The report for people: an HTML file."""
        return self.folder / "report" / "index.html"

    @property
    def verdicts(self) -> dict[str, str]:
        """Return pass, unproven or fail of each dataset that was verified."""
        return {name: one["verdict"] for name, one in self.report["verify"].items()}

    @property
    def datasets(self) -> dict[str, tuple[str, ...]]:
        """Return the splits of each dataset."""
        return {name: tuple(splits) for name, splits in self.report["datasets"].items()}

    def open(self, dataset: str, *, split: str = "train", epoch: int = 0) -> ShardDataset:
        """Open a dataset, as `shardmill.open_dataset` does.

        Raises:
            ShardmillError: there is no such dataset or split, or it is damaged.
        """
        with disk_faults(self.folder):
            run = RunFolder(self.folder)
            run.generations()
            return open_dataset(run.dataset(dataset), split=split, epoch=epoch)

    def row(self, dataset: str, number: int = 0, *, split: str = "train", epoch: int = 0) -> "DrawnRow":
        """Return a row as a person reads it, by its number in stored order.

        Raises:
            ShardmillError: there is no such dataset, split or row.
        """
        return DrawnRow(inspect(self.folder, dataset, split=split, row=number, epoch=epoch))

    def duplicates(self) -> list[ClusterContent]:
        """Return the largest clusters of duplicates, with a few documents of each.

        Raises:
            ShardmillError: nothing is compared in this run.
        """
        return duplicates(self.folder)

    def __repr__(self) -> str:
        """Say where it is and what is known of it."""
        said = ", ".join(f"{name}: {word}" for name, word in self.verdicts.items()) or "not verified"
        return f"FinishedRun({as_known(str(self.folder))!r}, {said})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return page_template("notebook_run.html.j2").render(report=self.report, verdicts=self.verdicts)


class DrawnRow:
    """A row as a person reads it; a notebook draws its tokens."""

    def __init__(self, content: RowContent) -> None:
        """Take what `shardmill.inspect` returns of a row."""
        self.content = content
        """Documents and tokens, as plain values."""

    @property
    def shown(self) -> ShownRow:
        """Return the beginning of it, as the report draws it."""
        return shown_row(self.content)

    def __repr__(self) -> str:
        """Say which row it is."""
        one = self.content
        return f"DrawnRow({one['dataset']}/{one['split']}, row {one['row']:,}, epoch {one['epoch']})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        style = Markup(page_template("style_row.css.j2").render())  # noqa: S704  # ours
        return page_template("notebook_row.html.j2").render(row=self.shown, style=style)

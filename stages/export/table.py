"""All formats that a dataset can be exported to, by name. What is not here does not exist."""

from stages.export.format import Format
from stages.export.nanogpt import NANOGPT

FORMATS: dict[str, Format] = {format_.name: format_ for format_ in (NANOGPT,)}

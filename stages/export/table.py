"""All formats that a dataset can be exported to, by name. What is not here does not exist."""

from stages.export.format import Format
from stages.export.huggingface import HF, HF_PARQUET
from stages.export.litdata import LITDATA
from stages.export.mds import MDS
from stages.export.nanogpt import NANOGPT
from stages.export.safetensors import SAFETENSORS

FORMATS: dict[str, Format] = {
    format_.name: format_ for format_ in (NANOGPT, LITDATA, MDS, HF, HF_PARQUET, SAFETENSORS)
}

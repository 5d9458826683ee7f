"""All formats that a dataset can be exported to, by name. What is not here does not exist."""

from stages.export.array_record import ARRAY_RECORD
from stages.export.datatrove import DATATROVE
from stages.export.format import Format
from stages.export.huggingface import HF, HF_PARQUET
from stages.export.litdata import LITDATA
from stages.export.mds import MDS
from stages.export.megatron import MEGATRON, MEGATRON_SENTENCES
from stages.export.nanogpt import NANOGPT
from stages.export.olmo_core import OLMO_CORE
from stages.export.safetensors import SAFETENSORS

_DOCUMENTS = (MEGATRON, MEGATRON_SENTENCES, NANOGPT, OLMO_CORE, DATATROVE, LITDATA, ARRAY_RECORD)
_ROWS = (MDS, HF, HF_PARQUET, SAFETENSORS)

FORMATS: dict[str, Format] = {known.name: known for known in (*_DOCUMENTS, *_ROWS)}

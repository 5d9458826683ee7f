"""What columns that stand on disk promise: those that are not as their manifest says are refused."""

from pathlib import Path

import numpy as np
import pytest

from stages.errors import FormatError
from stages.loading.drawn import DrawnEpochs
from stages.store.arrays import write_array
from stages.store.digests import digest_file
from stages.store.drawn import DrawnManifest, DrawnShard
from stages.store.manifest import FORMAT_VERSION, Column


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("shape", [(2, 4), (4, 4), (3, 5)])
def test_columns_of_another_number_of_rows_or_width_are_refused(
    tmp_path: Path, shape: tuple[int, int], *, check: bool
) -> None:
    path = tmp_path / "drawn" / "epoch-0000" / "00000" / "labels.npy"
    write_array(path, np.zeros(shape, "<i4"))
    manifest = DrawnManifest(
        format_version=FORMAT_VERSION,
        dataset="of no importance",
        epochs=1,
        columns={"labels": Column(dtype="<i4", shape=(4,), meaning="labels")},
        shards=((DrawnShard(path="drawn/epoch-0000/00000", files={path.name: digest_file(path)}),),),
    )
    with pytest.raises(FormatError, match=r"labels\.npy: shape .*but the manifest says \(3, 4\)"):
        DrawnEpochs(tmp_path, manifest, rows=[3], check=check).read(0, 0, np.arange(1))
    write_array(path, np.ones((3, 4), "<i4"))
    got = DrawnEpochs(tmp_path, manifest, rows=[3], check=False).read(0, 0, np.arange(2))
    assert got["labels"].tolist() == [[1] * 4] * 2

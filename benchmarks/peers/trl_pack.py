"""trl: best-fit decreasing packing of a table of tokens, `bfd_split`, which cuts documents over a row.

    trl_pack.py LENGTHS.npy SEQ_LEN

Tokens are of one byte, so that next to nothing of the time goes into moving them. Prints JSON.
"""

import json
import resource
import sys
import time

import numpy as np
import pyarrow as pa
from trl.data_utils import _pack_bfd


def main() -> None:
    """Pack, and print what it took."""
    lengths, seq_len = np.load(sys.argv[1]), int(sys.argv[2])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = pa.array(np.zeros(int(offsets[-1]), np.uint8))
    kind, array = (
        (pa.int32(), pa.ListArray) if offsets[-1] < 1 << 31 else (pa.int64(), pa.LargeListArray)
    )
    table = pa.table({"input_ids": array.from_arrays(pa.array(offsets, kind), tokens)})
    before, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    packed = _pack_bfd(table, seq_len, "split")
    cpu = time.process_time() - cpu
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    print(json.dumps({"cpu_seconds": cpu, "peak_bytes": peak, "rows": len(packed)}))


if __name__ == "__main__":
    main()

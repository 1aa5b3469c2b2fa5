"""Block formats: tiles of blocks. See quants/csrc/."""

import numpy as np
import numpy.typing as npt

def pack_tiles(rows: npt.NDArray[np.uint8], out: npt.NDArray[np.uint8], words: list[int],
               aside: list[int], block_bytes: int, first: int, n_threads: int) -> None: ...

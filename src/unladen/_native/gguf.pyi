import numpy as np
import numpy.typing as npt

def string_starts(buffer: npt.NDArray[np.uint8], pos: int, n: int,
                  big_endian: bool) -> npt.NDArray[np.int64]: ...

"""Every block format of the registry at every instruction-set level: rows and products."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from cases import running
from cases.base import Maker
from unladen import quants
from unladen.backends.base import Backend, BackendOptions

every_quant = pytest.mark.parametrize("quant", sorted(quants.registry()))


@pytest.fixture(params=[name for name in running.computing() if name.startswith("cpu")])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with running.opened(request.param) as backend:
        yield backend


def width(quant: str, rng: np.random.Generator) -> int:
    """A number of columns that the format can have."""
    size = quants.get(quant).block_size
    return 77 if size == 1 else size * int(rng.integers(1, 6))


@every_quant
def test_rows_are_exact(quant: str, backend: Backend, rng: np.random.Generator) -> None:
    m = Maker(rng, 9)
    n = width(quant, rng)
    m.batch.tokens[:9] = rng.integers(0, 21, 9)
    case = m.case("embed", m.g.inputs["tokens"], weights={"w": m.weight("w", 21, n, quant=quant)})
    (y,) = running.Bench(backend, case).run()
    table = quants.dequantize(quant, m.weights["w"], (21, n))
    np.testing.assert_array_equal(y, table[m.batch.tokens[:9]])


@every_quant
@pytest.mark.parametrize("precise", [False, True])
def test_products_are_within_bounds(quant: str, precise: bool, backend: Backend,
                                    rng: np.random.Generator) -> None:
    for n_tokens in (1, 3, 40):
        m = Maker(rng, n_tokens)
        n = width(quant, rng)
        case = m.case("linear", m.input("T", n), weights={"w0": m.weight("w0", 37, n, quant=quant)})
        outputs = running.Bench(backend, case, BackendOptions(precise=precise)).run()
        running.check(case, outputs, precise=precise, what=quant)

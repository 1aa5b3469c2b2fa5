"""In the machine code of products of four warps, weights are decoded while products are under way.
Compilers move instructions: the order in the text, or in PTX, shows nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from backends._gpu.test_nvrtc_matrices import CASES, FEATURES, dispatches
from backends.cuda.machine_code import COPY, Instruction, Turn, instructions, turns
from backends.nvrtc import compiled, text_of
from unladen.backends._gpu.cuda_like.compiler import Compiler
from unladen.backends.cuda.driver import chip_named

DECODING = 40
"""The fewest instructions that decode a slice."""
Rng = np.random.Generator


def texts(name: str) -> Mapping[int, str]:
    """The texts of the product ``name`` by four warps and bulk copies, by a tile's rows of x."""
    found = [d for d in dispatches(CASES[name](np.random.default_rng(0)), FEATURES | {"wgmma"})
             if d.constants.get("BULK")]
    assert {d.constants["TN"] for d in found} == {32, 64, 128}
    return {int(d.constants["TN"]): text_of(d) for d in found}


@functools.cache
def code_of(text: str, nvrtc: Compiler) -> list[Instruction]:
    return instructions(compiled(nvrtc, text, chip_named(90).name)[0])


def turns_of(text: str, nvrtc: Compiler) -> list[Turn]:
    return list(turns(code_of(text, nvrtc)))


def decodes_meanwhile(turn: Turn) -> bool:
    """Whether products of the turn are under way while a slice is decoded that was loaded before,
    and the loads of the next one come after that."""
    return turn.left == 1 and len(turn.loads) > 0 and turn.before + turn.loads[0] >= DECODING


@pytest.mark.parametrize("name", ["Q4_K", "Q6_K", "Q8_0"])
def test_codes_are_decoded_while_products_are_under_way(name: str, nvrtc: Compiler) -> None:
    for text in texts(name).values():
        found = turns_of(text, nvrtc)
        assert len(found) == 2  # slices with even and with odd numbers
        assert all(map(decodes_meanwhile, found)), found


@pytest.mark.parametrize("name", ["F16", "BF16"])
def test_plain_numbers_are_loaded_while_products_are_under_way(name: str, nvrtc: Compiler) -> None:
    for text in texts(name).values():
        found = turns_of(text, nvrtc)
        assert all(turn.left == 1 for turn in found)
        assert sum(len(turn.loads) > 0 for turn in found) == 2


@pytest.mark.parametrize(("name", "most"), [("Q4_K", 1), ("Q6_K", 2), ("F16", 1)])
def test_few_copies_bring_the_columns_of_a_turn(name: str, most: int, nvrtc: Compiler) -> None:
    """The first turns, in a loop, and each that the loop of products has."""
    for width, text in texts(name).items():
        n = sum(each.number == COPY for each in code_of(text, nvrtc))
        assert n == (len(turns_of(text, nvrtc)) + 1) * (most if width == 128 else 4)


def without_overlap(text: str) -> str:
    return text.replace("wgmma_wait_but(1u", "wgmma_wait_but(0u")


def loads_late(text: str) -> str:
    """Each slice is loaded when it is decoded."""
    at = "args, b, min_u32(slice + 1u, n_slices - 1u), band, raw"
    return text.replace(f"  fragments({at}, next);", f"  load_raw({at});\n  fragments({at}, next);")


@pytest.mark.parametrize("plant", [without_overlap, loads_late])
def test_another_order_is_told(plant: Callable[[str], str], nvrtc: Compiler) -> None:
    text = texts("Q4_K")[128]
    planted = plant(text)
    assert planted != text
    assert not all(map(decodes_meanwhile, turns_of(planted, nvrtc)))

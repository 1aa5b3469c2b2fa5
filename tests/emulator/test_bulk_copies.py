"""Bulk copies and the barriers that they arrive at: they come late, and each mistake is told."""

from __future__ import annotations

import re

import numpy as np
import pytest

from emulator.backend import KernelFault
from emulator.small import Launch

THREADS = 64
N = 32
"""Words of each of three pieces that the kernel copies, one after another to one place."""
PIECES = """
  if (LANE == 0u) {
    begin_arrivals(there, 0u, 1u);
    begin_arrivals(there, 1u, 2u);
    show_arrivals();
  }
  BARRIER();
  for (u32 piece = 0u; piece < 3u; piece++) {
    if (LANE == 0u) {
      if (piece > 0u) wait_for_arrivals(there, 1u, (piece - 1u) % 2u);
      expect_bytes(there, 0u, 128u);
      copy_in_bulk(tile, 0u, x, 128u * piece, 64u, there, 0u);
      copy_in_bulk(tile, 4u, x, 128u * piece + 64u, 64u, there, 0u);
    }
    wait_for_arrivals(there, 0u, piece % 2u);
    const u4 found = tile[LANE % 8u];
    if (LANE < 8u) y[8u * piece + LANE] = found.x + found.w;
    sync_warp();
    if (LANE % 32u == 0u) arrive_at(there, 1u);
  }"""


@pytest.mark.parametrize("order", range(3))
def test_pieces_arrive_in_turn(order: int, launch: Launch) -> None:
    x = np.arange(3 * N, dtype=np.uint32)
    y = launch(PIECES, x, 24, order, THREADS)
    assert np.array_equal(y, x.reshape(-1, 4)[:, 0] + x.reshape(-1, 4)[:, 3])


LATE = "before a copy is waited for"
FAULTS = {
    "no wait": ("    wait_for_arrivals(there, 0u, piece % 2u);", "", f"{LATE}|nobody waited"),
    "the other parity": ("there, 0u, piece % 2u", "there, 0u, (piece + 1u) % 2u", LATE),
    "copied before it is read": ("      if (piece > 0u) wait_for_arrivals(there, 1u, "
                                 "(piece - 1u) % 2u);", "", "race: copies to what another"),
    "arrives before it reads": ("    const u4 found", "    sync_warp();\n    if (LANE % 32u == 0u) "
                                "arrive_at(there, 1u);\n    const u4 found",
                                "race: copies to what another|more arrivals"),
    "arrives for others that still read": ("    sync_warp();", "",
                                           "race: copies to what another thread reads"),
    "fewer bytes than announced": ("expect_bytes(there, 0u, 128u)",
                                   "expect_bytes(there, 0u, 144u)",
                                   r"deadlock .*waits for phase 0 of there\[0\] \(.*small.h:22\), "
                                   "where 0 arrivals are missing and copies bring 128 of 144"),
    "more bytes than announced": ("expect_bytes(there, 0u, 128u)",
                                  "expect_bytes(there, 0u, 112u)", "copies bring 128 of 112"),
    "an arrival is missing": ("begin_arrivals(there, 1u, 2u)", "begin_arrivals(there, 1u, 3u)",
                              r"waits for phase 0 of there\[1\].* where 1 arrivals are missing"),
    "an arrival too many": ("begin_arrivals(there, 1u, 2u)", "begin_arrivals(there, 1u, 1u)",
                            "race: copies to what another thread reads"),
    "not shown": ("    show_arrivals();", "", "no fence showed"),
    "used too early": ("  BARRIER();\n  for", "  for", "just began|nobody began"),
    "begun again": ("    show_arrivals();", "    begin_arrivals(there, 0u, 1u);\n"
                    "    show_arrivals();", "begins again"),
    "half of 16 bytes": ("128u * piece, 64u", "128u * piece, 56u", "multiple of 16"),
    "not at 16 bytes": ("x, 128u * piece, 64u", "x, 128u * piece + 8u, 64u", "misaligned"),
    "beyond what is there": ("128u * piece + 64u, 64u", "128u * piece + 128u, 64u",
                             "out of bounds: copies"),
    "beyond the tile": ("tile, 4u, x", "tile, 29u, x", "out of bounds: copies to"),
    "stored over": ("    wait_for_arrivals(there, 0u, piece % 2u);",
                    "    if (LANE == 9u) tile[0] = U4(1u, 1u, 1u, 1u);\n"
                    "    wait_for_arrivals(there, 0u, piece % 2u);", f"{LATE}|race")}
"""For each fault: a text, what stands there instead, and what is told."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told(name: str, launch: Launch) -> None:
    old, new, told = FAULTS[name]
    assert PIECES.count(old) == 1, old
    x = np.arange(3 * N, dtype=np.uint32)
    found = ""
    for order in range(3):
        try:
            launch(PIECES.replace(old, new), x, 24, order, THREADS)
        except KernelFault as error:
            found += str(error)
    assert re.search(told, found, re.S), found


def test_a_barrier_of_the_workgroup_orders_reads_and_copies(launch: Launch) -> None:
    """Without arrivals at the second barrier in shared memory."""
    wait = "      if (piece > 0u) wait_for_arrivals(there, 1u, (piece - 1u) % 2u);\n"
    told = "    sync_warp();\n    if (LANE % 32u == 0u) arrive_at(there, 1u);\n"
    assert wait in PIECES and told in PIECES
    text = PIECES.replace(wait, "").replace(told, "    BARRIER();\n")
    x = np.arange(3 * N, dtype=np.uint32)
    for order in range(3):
        y = launch(text, x, 24, order, THREADS)
        assert np.array_equal(y, x.reshape(-1, 4)[:, 0] + x.reshape(-1, 4)[:, 3])


WAIT = "  wait_for_arrivals(there, 0u, 0u);\n"
ONE = """
  if (LANE == 0u) {
    begin_arrivals(there, 0u, 1u);
    show_arrivals();
    expect_bytes(there, 0u, 64u);
    copy_in_bulk(tile, 0u, y, 64u, 64u, there, 0u);
  }
  BARRIER();
""" + WAIT
SINGLE = """
  if (LANE < 4u) copy_async(tile, LANE, y, 64u + 16u * LANE);
  copy_commit();
  copy_wait(0u);
"""
SOURCES = {
    "in bulk, of another": (ONE + "  if (LANE == 9u) y[31] = 1u;", "writes what another thread re"),
    "in bulk, of its own": (ONE.replace(WAIT, "  if (LANE == 0u) y[16] = 1u;\n" + WAIT),
                            "race: writes what a copy reads"),
    "in bulk, before": ("  if (LANE == 0u) y[16] = 1u;" + ONE, "copies what the same thread wrote"),
    "in bulk, beyond its end": (ONE.replace("y, 64u, 64u", "y, 80u, 64u"), "out of bounds: copies"),
    "of another": (SINGLE + "  if (LANE == 9u) y[31] = 1u;", "race: (reads|writes) what another"),
    "of its own": (SINGLE.replace("  copy_wait", "  if (LANE == 3u) y[31] = 1u;\n  copy_wait"),
                   "race: writes what a copy reads"),
    "before": ("  if (LANE == 3u) y[31] = 1u;" + SINGLE, "copies what the same thread wrote"),
    "of another, before": ("  if (LANE < 32u) y[LANE] = 1u;\n  BARRIER();" + SINGLE,
                           "race: reads what another thread wrote y"),
    "beyond its end": (SINGLE.replace("y, 64u", "y, 80u"), "out of bounds: copies")}
"""Copies of what the launch writes, or isn't there: a text, and what is told."""


@pytest.mark.parametrize("name", SOURCES)
def test_what_a_copy_reads_stays_as_it_is(name: str, launch: Launch) -> None:
    text, told = SOURCES[name]
    for order in range(3):
        with pytest.raises(KernelFault, match=told):
            launch(text, np.zeros(1, np.uint32), 32, order, THREADS)


@pytest.mark.parametrize("copies", [ONE, SINGLE])
def test_what_no_copy_reads_may_be_written(copies: str, launch: Launch) -> None:
    y = launch(copies + "  if (LANE < 16u) y[LANE] = 1u;", np.zeros(1, np.uint32), 32, 0, THREADS)
    assert y.tolist() == 16 * [1] + 16 * [0]

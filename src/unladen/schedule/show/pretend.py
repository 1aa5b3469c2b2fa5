"""Makes pretended devices from a short text, for plans on hardware that this machine lacks."""

from __future__ import annotations

import math
import re

from unladen.backends.base import Device
from unladen.errors import InvalidArgument

BANDWIDTH, LINK = 1000.0, 25.0
"""GB/s of a device's memory and of its link where the text doesn't give them: those of a large
graphics card in a PCI Express 4.0 slot."""
FLOPS_PER_BYTE = 100
"""Assumed operations for each byte of bandwidth: about the ratio of graphics cards in float16."""
_ITEM = re.compile(r"(?:(?P<n>\d{1,2})x)?(?P<size>\d+(?:\.\d+)?)(?P<unit>[GM])i?B?"
                   r"(?::(?P<bandwidth>\d+(?:\.\d+)?)(?:GB/?s)?)?"
                   r"(?::(?P<link>\d+(?:\.\d+)?)(?:GB/?s)?)?", re.IGNORECASE)
_UNITS = (("G", 2**30), ("M", 2**20))


def pretended(text: str) -> list[Device]:
    """``[Nx]MEMORY[:BANDWIDTH[:LINK]]`` by comma, for example ``2x24GB`` or
    ``24GB:1000GBs,8GB:300GBs:12GBs``: memory in binary GB or MB, as memory is sold, the others in
    10^9 bytes/s. Raises :class:`InvalidArgument`."""
    devices: list[Device] = []
    for item in text.split(","):
        found = _ITEM.fullmatch(item.strip())
        values = found and [float(found[k] or v) for k, v in
                            (("n", 1), ("size", 0), ("bandwidth", BANDWIDTH), ("link", LINK))]
        if not found or not values or min(values) <= 0 or max(values) == math.inf:
            raise InvalidArgument(f"pretend: {item!r} isn't a device",
                                  hint="for example 2x24GB or 24GB:1000GBs,8GB:300GBs:12GBs")
        n, size, bandwidth, link = values
        nbytes = int(size * dict(_UNITS)[found["unit"].upper()])
        for _ in range(int(n)):
            devices.append(Device(
                f"null:{len(devices)}", f"pretended, {item.strip()}", nbytes, bandwidth * 1e9,
                bandwidth * 1e9 * FLOPS_PER_BYTE, link_bandwidth=link * 1e9, link_latency_s=10e-6,
                launch_s=10e-6, is_pretend=True))
    return devices

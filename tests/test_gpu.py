"""``unladen.gpu`` has the public names of the drivers' module."""

from __future__ import annotations

import inspect

from unladen import gpu
from unladen.backends._gpu import drivers


def test_face_has_every_public_function() -> None:
    public = {name for name, function in inspect.getmembers(drivers, inspect.isfunction)
              if not name.startswith("_") and function.__module__ == drivers.__name__}
    assert set(gpu.__all__) == public
    assert all(getattr(gpu, name) is getattr(drivers, name) for name in public)

"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

Parameters = dict[str, Any]
"""By name, as the Python interface takes them."""


def extended(command: Callable[..., None], shared: Callable[..., Parameters]
             ) -> Callable[..., None]:
    """``command`` with the options of ``shared`` on its command line too; it takes what ``shared``
    makes of them as one parameter of that name."""
    name = shared.__name__
    own, added = (inspect.signature(f, eval_str=True) for f in (command, shared))
    parameters = {**own.parameters, **added.parameters}
    del parameters[name]

    @functools.wraps(command)
    def run(**options: Any) -> None:
        chosen = {each: options.pop(each) for each in added.parameters}
        command(**options, **{name: shared(**chosen)})

    run.__dict__["__signature__"] = own.replace(parameters=list(parameters.values()))
    run.__annotations__ = {each: p.annotation for each, p in parameters.items()}
    return run

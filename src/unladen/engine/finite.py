"""Turns results that aren't finite into errors that name likely causes."""

from __future__ import annotations

import numpy as np

from unladen.engine.request import Logits, Request
from unladen.errors import NotFinite
from unladen.runtime.plan import Plan
from unladen.sample import BadLogits


def checked(rows: Logits, plan: Plan) -> Logits:
    """``rows`` float32 [n, n_vocab] of logits, or [n, n_embd] of embeddings. Raises
    :class:`NotFinite` for a row with NaN or +inf, or without any finite number. A single logit may
    be -inf: some models rule out tokens that way."""
    # The largest number of a row is NaN if any number of the row is.
    bad = np.flatnonzero(~np.isfinite(rows.max(axis=1)))
    what = "embeddings" if "embeddings" in plan.blueprint.graph.outputs else "logits"
    if len(bad):
        raise NotFinite(f"{len(bad)} of {len(rows)} rows of {what} hold NaN or infinity",
                        hint=hint(plan))
    return rows


def explain(request: Request, plan: Plan) -> None:
    """If bad logits ended ``request``, say in its error how ``plan`` may have caused them."""
    if isinstance(request.error, BadLogits):
        request.error.hint = f"{hint(plan)}; or a step of the chain left no candidate"


def hint(plan: Plan) -> str:
    """A hint for the user: what to try where a step of ``plan`` made numbers that aren't finite."""
    layout, weights = plan.blueprint.layout, "check_tensors=True looks for damaged weights"
    types = {layout.k_type, layout.v_type} - {"F32"}
    if not types or not plan.kv:
        return weights
    return (f"keys or values may be beyond what a cache of {' and '.join(sorted(types))} holds: "
            f'load the model with kv_type="f32"; {weights}')

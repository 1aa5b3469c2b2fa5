"""Makes a model's plans, makes smaller ones where memory runs out, and changes them while they run.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from unladen.assembly.ladder import Ladder, Wishes
from unladen.assembly.setup import (
    allocate,
    blueprint_for,
    check_beside,
    check_instead,
    check_without_caches,
    with_pool,
)
from unladen.assembly.sources import Sources
from unladen.backends.base import Device
from unladen.engine import Engine
from unladen.engine.tap import Tap, Watch
from unladen.errors import OutOfMemory
from unladen.gguf import warn_unmatched
from unladen.models import Architecture
from unladen.parameters.model import PlaceNames
from unladen.runtime.carry import Kept
from unladen.runtime.plan_set import PlanSet
from unladen.schedule.blueprint_set import BlueprintSet, retapped
from unladen.schedule.options import Change
from unladen.schedule.place import EXPERTS, Choice, PlaceOptions, in_vain
from unladen.types import MAIN

log = logging.getLogger("unladen")


class Planner:
    """Plans of ``architectures``, by the names of their graphs, with weights from ``sources``.
    :data:`~unladen.types.MAIN` is the model's own. ``on_oom``: rungs of
    :class:`~unladen.assembly.ladder.Ladder`.

    :attr:`degradations` says what was given up so far. Raises :class:`InvalidArgument`.
    """

    def __init__(self, sources: Sources, architectures: Mapping[str, Architecture], wishes: Wishes,
                 on_oom: Sequence[str] = ()) -> None:
        self._sources = sources
        self._architectures = dict(architectures)
        self._wishes = wishes
        self._ladder = Ladder(on_oom, [a.build() for a in architectures.values()])
        self._watch = Watch()
        self._untapped: tuple[PlanSet, int] | None = None
        _warn_of_idle(wishes.options.place, sources.names())
        self.degradations: list[str] = []

    def load(self, n_draft: int = 0, max_queue: int = sys.maxsize,
             step_seconds: float | None = None) -> Engine:
        """An engine over the first plan that fits; raises :class:`OutOfMemory`. ``n_draft``,
        ``max_queue`` and ``step_seconds`` are the engine's."""
        made = self._make(self._wishes, Kept())
        if isinstance(made, OutOfMemory):
            # Begin with the largest sizes that could be in use: a step down from more does no harm.
            main = self._architectures[MAIN]
            n_layers = max(a.build().n_layers for a in self._architectures.values())
            made = self._descend(made, n_layers, self._wishes.context_size or main.context_length,
                                 Kept(), n_needed=1)
            if isinstance(made, OutOfMemory):
                raise made.again()
        plans, context = made
        # The default depends on the free memory, and these plans now take some of it: keep the
        # present context.
        self._wishes = replace(self._wishes, context_size=context)
        _report_layers(plans.blueprint)
        return Engine(plans, context, self._architectures[MAIN].n_vocab,
                      self.relieve if self._ladder.rungs else None, n_draft, max_queue,
                      step_seconds)

    def relieve(self, engine: Engine, shortage: OutOfMemory) -> None:
        """Make ``engine``, between two steps, go on with less memory. Where nothing fits, the old
        plans are made again, as far as they can be, and :class:`OutOfMemory` raised."""
        self._untapped = None
        kept = engine.surrender(shortage)
        made = self._descend(shortage, engine.plans.blueprint.n_offloaded(), engine.context_size,
                             kept, engine.n_needed, engine.plans)
        if not isinstance(made, OutOfMemory):
            engine.adopt(*made)
            return
        self._restore(engine, kept)
        del kept  # the error's traceback would keep its memory
        raise made.again()

    def place(self, engine: Engine, changes: PlaceNames) -> None:
        """Make ``engine`` go on with other plans. They are made beside the old ones where there is
        room for both. Else the old ones are freed first, if that makes room enough; requests under
        way then compute their cache again. Where this raises, the old plans stay, or are made
        again."""
        def move() -> None:
            wishes = _changed(self._wishes, changes)
            kept = engine.plans.keep()
            blueprint, context = self._blueprint(wishes, kept, engine.plans)
            shortage = self._shortage(engine, blueprint, kept)
            if shortage is None:
                plans = self._allocated(blueprint, kept)
            else:
                del kept
                plans, context = self._instead(engine, wishes, shortage)
            engine.adopt(plans, context)
            self._untapped = None
            if "override_tensor" in changes:
                _warn_of_idle(wishes.options.place, self._sources.names())
            self._wishes = wishes
            _report_layers(plans.blueprint)
        engine.between_steps(move)

    @staticmethod
    def _shortage(engine: Engine, blueprint: BlueprintSet, kept: Kept) -> OutOfMemory | None:
        """Why plans of ``blueprint`` don't fit beside those of ``engine``; None: they do. Raises
        :class:`OutOfMemory` where they don't fit either once those are freed."""
        try:
            check_beside(blueprint, kept)
        except OutOfMemory as error:
            shortage = error.again()
        else:
            return None
        check_instead(blueprint, engine.plans)
        return shortage

    def _allocated(self, blueprint: BlueprintSet, kept: Kept) -> PlanSet:
        try:
            return allocate(self._sources, blueprint, kept)
        except OutOfMemory as error:
            # The error's frames refer to memory, and the caller may keep the error.
            traceback.clear_frames(error.__traceback__)
            raise

    def _instead(self, engine: Engine, wishes: Wishes, shortage: OutOfMemory
                 ) -> tuple[PlanSet, int]:
        """Plans for ``wishes`` and their context size, in the memory of ``engine``'s, which are
        freed first. Where that fails, these are made again."""
        self._untapped = None
        kept = engine.surrender(shortage)
        try:
            made = self._make(wishes, kept, engine.plans)
        except BaseException:
            self._restore(engine, kept)
            raise
        if isinstance(made, OutOfMemory):
            self._restore(engine, kept)
            del kept  # the error's traceback would keep its memory
            raise made.again()
        return made

    def _restore(self, engine: Engine, kept: Kept) -> None:
        """Make the plans of the present wishes again after they were freed, if there still is the
        memory for them."""
        restored = self._make(self._wishes, kept, engine.plans)
        if not isinstance(restored, OutOfMemory):
            engine.adopt(*restored)

    def close(self, engine: Engine) -> None:
        """Close ``engine``, and drop the plans that wait until a tap ends. Raises
        :class:`ReentrantCall`."""
        engine.close()
        self._untapped = None

    def tap(self, engine: Engine, tap: Tap) -> None:
        """Give ``tap`` its values from ``engine``'s next step on. Raises :class:`OutOfMemory` where
        plans with them don't fit; the old plans then stay. The plans without taps wait meanwhile,
        with their own arenas: :meth:`untap` brings them back.
        """
        def start() -> None:
            before = self._watch.taps
            if not engine.plans.blueprint.is_tapped:
                self._untapped = engine.plans, engine.context_size
            self._watch.taps = (*before, tap)
            try:
                self._adopt_tapped(engine)
            except BaseException as error:
                self._watch.taps = before
                if not engine.plans.blueprint.is_tapped:
                    self._untapped = None
                # The error's frames refer to memory, and the caller may keep the error.
                traceback.clear_frames(error.__traceback__)
                raise
            if tap.functions:  # the cache is of the model without these functions
                engine.forget()
            if self._untapped is not None:
                self._untapped[0].rest()
        engine.between_steps(start)

    def untap(self, engine: Engine | None, tap: Tap) -> None:
        """Give ``tap`` no more values. ``engine``: None where the engine is closed."""
        if engine is None:
            self._watch.taps, self._untapped = (), None
            return

        def stop() -> None:
            self._watch.taps = tuple(t for t in self._watch.taps if t is not tap)
            try:
                self._adopt_tapped(engine)
            except OutOfMemory as error:
                # The present plans compute the same tokens; they only have outputs that nobody
                # reads.
                log.warning("the plan stays as it is after a tap: %s", error)
                engine.watch = self._watch if self._watch.taps else None
            if tap.functions:
                engine.forget()
        engine.between_steps(stop)

    def _adopt_tapped(self, engine: Engine) -> None:
        """Make ``engine`` go on with plans for the present taps."""
        watch = self._watch
        if watch.taps or self._untapped is None:
            blueprint = retapped(engine.plans.blueprint, watch.looked, self._changes())
            plans = allocate(self._sources, blueprint, engine.plans.keep())
            context = engine.context_size
        else:
            plans, context = self._untapped
            for plan in plans.members.values():  # later plans used its caches
                plan.continues_cache = True
        engine.adopt(plans, context)
        engine.watch = watch if watch.taps else None
        if not watch.taps:
            self._untapped = None

    def _changes(self) -> dict[str, Change]:
        return dict.fromkeys(self._watch.changed, self._watch.change)

    def _descend(self, shortage: OutOfMemory, n_offloaded: int, context: int, kept: Kept,
                 n_needed: int, before: PlanSet | None = None
                 ) -> tuple[PlanSet, int] | OutOfMemory:
        changes = []
        for wishes, change in self._ladder.down(self._wishes, n_offloaded, context, n_needed):
            changes.append(change)
            made = self._make(wishes, kept, before)
            if not isinstance(made, OutOfMemory):
                log.warning("%s; the model goes on with %s", shortage.message, ", ".join(changes))
                self.degradations += changes
                self._wishes = wishes
                return made
            shortage = made
        return shortage

    def _make(self, wishes: Wishes, kept: Kept, before: PlanSet | None = None
              ) -> tuple[PlanSet, int] | OutOfMemory:
        """The plans and their context size, or the error that says why there are none. The first
        attempt takes over the caches that are ``kept``, the second one doesn't. ``before``: plans
        whose placement may stay."""
        while True:
            had_caches = kept.has_caches
            try:
                blueprint, context = self._blueprint(wishes, kept, before)
                kept.restrict(blueprint)
                return allocate(self._sources, blueprint, kept), context
            except OutOfMemory as error:
                traceback.clear_frames(error.__traceback__)
                shortage = error.again()
            if not had_caches:
                return shortage
            kept.drop_caches()

    def blueprint(self) -> tuple[BlueprintSet, int]:
        """The blueprints for the present wishes, whether they fit or not, and their context
        size."""
        return self._blueprint(self._wishes)

    def _blueprint(self, wishes: Wishes, kept: Kept | None = None, before: PlanSet | None = None
                   ) -> tuple[BlueprintSet, int]:
        """The blueprints for ``wishes``, and their context size. Memory that the plans ``before``
        hold is not free for another placement. So where only sizes change, their placement stays
        if it fits and is as fast as the one that is found for what is free."""
        made, context = self._placed(wishes, kept)
        if before is None or kept is None or wishes.options != self._wishes.options:
            return made, context
        choices = {name: b.choice for name, b in before.blueprint.members.items()}
        if choices == {name: b.choice for name, b in made.members.items()}:
            return made, context
        same, _ = self._placed(wishes, kept, choices)
        is_slower = same.main.predict()[0].seconds > made.main.predict()[0].seconds
        return made if is_slower or not _fits(same, kept, before) else same, context

    def _placed(self, wishes: Wishes, kept: Kept | None, choices: Mapping[str, Choice] | None = None
                ) -> tuple[BlueprintSet, int]:
        options = replace(wishes.options, looked=tuple(self._watch.looked),
                          changes=self._changes())
        made, context = blueprint_for(
            self._architectures, options, choices, context_size=wishes.context_size,
            batch_size=wishes.batch_size, max_seqs=wishes.max_seqs, kv_type=wishes.kv_type,
            cache_tokens=wishes.cache_tokens)
        return made if wishes.cache_tokens is not None else with_pool(made, kept), context


def _fits(blueprint: BlueprintSet, kept: Kept, plans: PlanSet) -> bool:
    """Whether there is room for ``blueprint`` beside what is in memory, or in place of ``plans``,
    or, where these are freed already, in place of the caches that are ``kept`` of them."""
    checks: list[Callable[[], None]] = [
        lambda: check_beside(blueprint, kept), lambda: check_instead(blueprint, plans),
        lambda: check_without_caches(blueprint, kept)]
    for check in checks:
        try:
            check()
        except OutOfMemory:
            continue
        return True
    return False


def _warn_of_idle(place: PlaceOptions, names: Collection[str]) -> None:
    """Warn of options that match none of the weights called ``names``."""
    warn_unmatched("override_tensor", place.override_tensor, names)
    options = {"cpu_moe": place.cpu_moe, "n_cpu_moe": place.n_cpu_moe,
               "expert_cache": place.expert_cache != 0,
               "expert_split": place.expert_split is not None}
    idle = [name for name, is_set in options.items() if is_set]
    if idle and not any(map(EXPERTS.search, names)):
        log.warning("%s does nothing: the model has no experts", " and ".join(idle))


def _changed(wishes: Wishes, changes: PlaceNames) -> Wishes:
    fields: dict[str, Any] = {name: value for name, value in changes.items() if name != "devices"}
    if fields.get("override_tensor", ()) is None:
        fields["override_tensor"] = {}
    sizes: dict[str, Any] = {
        name: fields.pop(name) for name in ("context_size", "kv_type", "batch_size", "cache_tokens")
        if name in fields}
    options = wishes.options
    place = replace(options.place, **fields)
    options = replace(options, place=place, devices=_devices(changes, options.devices))
    return replace(wishes, options=options, **sizes)


def _devices(changes: PlaceNames, now: Sequence[str | Device]) -> Sequence[str | Device]:
    named: Any = changes.get("devices")
    return now if named is None else named


def _report_layers(blueprint: BlueprintSet) -> None:
    vain = in_vain(blueprint.main.options.place.n_gpu_layers, blueprint.devices)
    if vain:
        log.warning(vain)
    for line in blueprint.offloaded():
        log.info(line)

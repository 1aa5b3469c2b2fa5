"""Where the bytes of each layer are."""

from __future__ import annotations

from unladen.graph.graph import AFTER_LAYERS, BEFORE_LAYERS
from unladen.schedule import fit
from unladen.schedule.blueprint import Blueprint
from unladen.schedule.place import EXPERTS


def layer_bytes(blueprint: Blueprint) -> list[dict[str, int]]:
    """The bytes of each layer on all devices: ``weights``, ``kv`` with recurrent state, and
    ``experts_on_cpu``, those of the weights that are experts on the host although the layer isn't
    there. A weight of several layers counts for the first."""
    found = [{"weights": 0, "kv": 0, "experts_on_cpu": 0} for _ in blueprint.layers]
    layer_of = _layers_of_weights(blueprint)
    for need in blueprint.needs:
        layer = layer_of.get(need.weight.name, BEFORE_LAYERS)
        if layer < 0:
            continue
        found[layer]["weights"] += need.nbytes
        if (need.device.is_host and not blueprint.layers[layer].is_host
                and EXPERTS.search(need.weight.name)):
            found[layer]["experts_on_cpu"] += need.nbytes
    layouts = blueprint.layouts
    for layer, (spec, _) in blueprint.caches().items():
        found[layer]["kv"] += sum(fit.kv_bytes(spec, layouts[spec.layer]))
    layer_of_node = {node.name: node.layer for node in blueprint.graph.nodes}
    for name, (nbytes, _) in blueprint.slots().items():
        if layer_of_node[name] >= 0:
            found[layer_of_node[name]]["kv"] += nbytes
    return found


def end_bytes(blueprint: Blueprint) -> dict[str, int]:
    """The bytes of the weights before the layers, ``embeddings``, and after them, ``head``. A
    weight of both counts for the first."""
    layer_of, found = _layers_of_weights(blueprint), {"embeddings": 0, "head": 0}
    names = {BEFORE_LAYERS: "embeddings", AFTER_LAYERS: "head"}
    for need in blueprint.needs:
        name = names.get(layer_of.get(need.weight.name, BEFORE_LAYERS))
        if name is not None:
            found[name] += need.nbytes
    return found


def _layers_of_weights(blueprint: Blueprint) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in blueprint.graph.nodes:
        for weight in node.weights.values():
            found.setdefault(weight.name, node.layer)
    return found

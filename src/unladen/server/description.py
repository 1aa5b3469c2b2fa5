"""The description of the API (OpenAPI 3.1), made of the dialects' endpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic.json_schema import models_json_schema

from unladen import __version__
from unladen.server.endpoint import Dialect, Endpoint
from unladen.server.faults import STATUS, Fault, Kind
from unladen.server.streaming import NDJSON, SSE

_PARAMETER: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
_AT: Final = "#/components/schemas/{model}"
SECURITY: Final[Sequence[Mapping[str, Sequence[str]]]] = ({"bearer": []}, {"key": []})
"""A key in either header is enough."""
_WITH_BODY: Final[Sequence[Kind]] = ("bad_request", "overflow", "unsupported", "too_slow",
                                     "too_large", "deadline")
_ALWAYS: Final[Sequence[Kind]] = ("unknown_model", "not_found", "forbidden", "full", "load_failed",
                                  "worker_lost", "closing", "internal")


def describe(spoken: Sequence[Dialect], *, has_keys: bool) -> dict[str, Any]:
    """The API of ``spoken``. ``has_keys``: whether a key is needed."""
    schemas, references = _schemas(spoken)
    paths: dict[str, dict[str, Any]] = {}
    for dialect in spoken:
        schemas[_error_name(dialect)] = _error_schema(dialect)
        for endpoint in dialect.endpoints:
            path = _PARAMETER.sub(r"{\1}", endpoint.path)
            paths.setdefault(path, {})[endpoint.method.lower()] = _operation(
                endpoint, dialect, references, has_keys=has_keys)
    return {
        "openapi": "3.1.0",
        "info": {"title": "unladen", "version": __version__,
                 "description": "Language models through the APIs of several programs."},
        "tags": [{"name": dialect.name} for dialect in spoken],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "x-api-key"}}}}


_References: TypeAlias = Mapping[Any, Mapping[str, Any]]


def _schemas(spoken: Sequence[Dialect]) -> tuple[dict[str, Any], _References]:
    """The schemas of all bodies by name, and what refers to that of each."""
    bodies = dict.fromkeys(endpoint.body for dialect in spoken for endpoint in dialect.endpoints
                           if endpoint.body is not None)
    references, found = models_json_schema([(body, "validation") for body in bodies],
                                           ref_template=_AT)
    return dict(found.get("$defs", {})), {body: each for (body, _), each in references.items()}


def _operation(endpoint: Endpoint, dialect: Dialect, references: _References, *, has_keys: bool
               ) -> dict[str, Any]:
    words = re.sub(r"\W+", "_", _PARAMETER.sub(r"\1", endpoint.path)).strip("_") or "root"
    operation: dict[str, Any] = {
        "operationId": f"{endpoint.method.lower()}_{words}", "tags": [dialect.name],
        "summary": endpoint.summary,
        "responses": _responses(endpoint, dialect, has_keys=has_keys)}
    names = _PARAMETER.findall(endpoint.path)
    if names:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string",
                                                                      "minLength": 1}}
            for name in names]
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {
            "schema": references[endpoint.body]}}}
    if has_keys and endpoint.scope != "open":
        operation["security"] = [dict(each) for each in SECURITY]
    return operation


def _responses(endpoint: Endpoint, dialect: Dialect, *, has_keys: bool) -> dict[str, Any]:
    found: dict[str, Any] = {str(endpoint.status): {"description": "the answer", "content": {
        kind: {} for kind in _media(endpoint)}}}
    kinds: list[Kind] = [*_ALWAYS, *(_WITH_BODY if endpoint.body is not None else ()),
                         *(("no_key",) if has_keys else ())]
    if endpoint.scope == "open" and endpoint.body is None:
        kinds = ["closing", "forbidden", "internal"]
        if _PARAMETER.search(endpoint.path):
            kinds.append("not_found")
    for kind in kinds:
        status = str(dialect.error(Fault(kind, "..."))[0])
        said = found.setdefault(status, {
            "description": "", "content": {"application/json": {"schema": {
                "$ref": _AT.format(model=_error_name(dialect))}}}})
        said["description"] = ", ".join(filter(None, (said["description"],
                                                      kind.replace("_", " "))))
    return found


def _media(endpoint: Endpoint) -> Sequence[str]:
    """The media types of an answer."""
    if endpoint.media:
        return endpoint.media
    if endpoint.body is not None and "stream" in endpoint.body.model_fields:
        return ("application/json", SSE, NDJSON)
    return ("application/json",)


def _error_name(dialect: Dialect) -> str:
    return f"{dialect.name.title()}Error"


def _error_schema(dialect: Dialect) -> dict[str, Any]:
    """The schema of a dialect's errors, read from errors that it makes of every kind of fault."""
    return _merged([_schema_of(dialect.error(Fault(kind, "...", param=param))[1])
                    for kind in STATUS for param in ("", "field")])


def _schema_of(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return {"type": "object", "required": sorted(value),
                "properties": {name: _schema_of(each) for name, each in value.items()}}
    kinds: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number",
                                 list: "array", type(None): "null"}
    return {"type": kinds[type(value)]}


def _merged(schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A schema of what any of ``schemas`` describes."""
    kinds = [*dict.fromkeys(each["type"] for each in schemas)]
    merged: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    objects = [each for each in schemas if each["type"] == "object"]
    if objects:
        names = [*dict.fromkeys(name for each in objects for name in each["properties"])]
        merged["properties"] = {
            name: _merged([each["properties"][name] for each in objects
                           if name in each["properties"]]) for name in names}
        merged["required"] = sorted(set.intersection(*(set(each["required"])
                                                       for each in objects)))
    return merged

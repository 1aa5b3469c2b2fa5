"""Makes models under names of the user's own: copies of others, and models of Modelfiles."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from unladen.errors import InvalidArgument, ModelfileError, ModelNotFound, UnladenError
from unladen.hub.included import INCLUDED
from unladen.hub.modelfile import Modelfile
from unladen.hub.preset import WITHOUT_EFFECT, Preset, check
from unladen.hub.resolve import candidates, is_gguf, kind_of, parts, quant_of
from unladen.hub.stores import Look, StoredModel
from unladen.hub.stores.created import created, write
from unladen.hub.stores.finding import every_called, listed
from unladen.hub.stores.naming import new_name
from unladen.hub.stores.presets import read_preset

Resolve = Callable[[str], Path]
"""Finds or downloads the model that a name stands for, as :func:`unladen.hub.resolve_model` does.
"""

_PATH_BEGINS: Final = ("/", "./", "../", "~", ".\\", "..\\")
"""Begins a value of FROM that can only be a path."""
_REFUSED: Final = {"ADAPTER": ("adapters aren't applied yet",
                               "merge the adapter into the model's file first")}
"""Instructions that would change what the model writes, and can't be followed; and what to do."""
_IGNORED: Final = {
    "RENDERER": "RENDERER has no effect: the chat template writes prompts",
    "PARSER": "PARSER has no effect: the chat template shows how answers are read",
    "DRAFT": "DRAFT has no effect yet: no draft model is used",
    "VISION_PROJECTOR": "VISION_PROJECTOR has no effect yet: pictures aren't understood",
    "TOOLFORMAT": "TOOLFORMAT has no effect: the chat template shows how tools are called",
    "CAPABILITY": "CAPABILITY has no effect: the chat template shows what a model can do"}
"""What a warning says of an instruction that is kept out."""


@dataclass(frozen=True, slots=True)
class Made:
    """A model that was made: its ``name``, its ``record``, its weights, and what has no effect."""

    name: str
    record: Path
    weights: Path
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Base:
    """What a new model begins with: files, and the ``preset`` that comes with them."""

    files: tuple[Path, ...]
    quant: str = ""
    digests: Mapping[Path, str] = field(default_factory=dict)
    projectors: tuple[Path, ...] = ()
    preset: Preset = field(default_factory=Preset)

    def record(self) -> dict[str, Any]:
        """This as a record of the store of created models."""
        included = {path: name for name, path in INCLUDED.items()}
        digests = {os.path.abspath(path): digest for path, digest in self.digests.items()}
        return {"files": [included.get(path) or os.path.abspath(path) for path in self.files],
                "quant": self.quant, "digests": digests,
                "projectors": [os.path.abspath(path) for path in self.projectors],
                "template": self.preset.template, "yields": self.preset.yields,
                "system": self.preset.system, "parameters": dict(self.preset.parameters),
                "messages": [dict(each) for each in self.preset.messages],
                "licenses": [*self.preset.licenses]}


def copy(source: str, name: str, resolve: Resolve, look: Look) -> Made:
    """Make a model called ``name`` of the model ``source``: the same weights, where they are, with
    the same settings. Raises what ``resolve`` raises, and :class:`InvalidArgument` for a name that
    can't be one."""
    own = new_name(name)
    base = _named(source, resolve, look)
    return Made(own.short, write(own, base.record()), base.files[0])


def create(name: str, modelfile: Modelfile, folder: Path | None, resolve: Resolve, look: Look
           ) -> Made:
    """Make a model called ``name`` as ``modelfile`` says.

    * ``folder``: that of the Modelfile, from which its relative paths are; None: it may name no
      files, only models.
    * ``resolve``: finds the models that FROM names.
    * ``look``: reads a file's header.

    The weights stay where they are. Raises :class:`ModelfileError` and :class:`InvalidArgument` for
    what can't be followed, and what ``resolve`` raises.
    """
    own = new_name(name)
    for instruction, (what, hint) in _REFUSED.items():
        if modelfile.every(instruction):
            raise ModelfileError(f"{instruction} can't be followed: {what}", hint=hint)
    base = _sources(modelfile.sources, folder, resolve, look)
    projectors = [_file(each, folder, "VISION_PROJECTOR")
                  for each in modelfile.every("VISION_PROJECTOR")]
    parameters, warnings = _parameters(modelfile)
    template, system = modelfile.last("TEMPLATE"), modelfile.last("SYSTEM")
    if isinstance(template, str):
        _check_template(template)
    of_base, has_own = base.preset, isinstance(template, str)
    preset = Preset(
        template=str(template) if has_own else of_base.template,
        yields=not has_own and of_base.yields,
        system=system if isinstance(system, str) else of_base.system,
        messages=modelfile.messages or of_base.messages,
        parameters={**of_base.parameters, **parameters},
        licenses=(*of_base.licenses, *modelfile.every("LICENSE")))
    made = replace(base, projectors=(*base.projectors, *projectors), preset=preset)
    digest = modelfile.last("DIGEST")
    if isinstance(digest, str):
        made = replace(made, digests={**made.digests, made.files[0]: _checked(
            made.files[0], digest.removeprefix("sha256:"))})
    record = made.record() | {key.lower(): value for key in ("AUTHOR", "REQUIRES")
                              if (value := modelfile.last(key)) is not None}
    names = {name for name, _ in modelfile.instructions}
    said = [text for instruction, text in _IGNORED.items() if instruction in names]
    return Made(own.short, write(own, record), made.files[0],
                (*modelfile.warnings, *said, *warnings))


def _parameters(modelfile: Modelfile) -> tuple[dict[str, Any], list[str]]:
    """The parameters that ``modelfile`` sets, and a sentence for each that has no effect. Raises
    :class:`ModelfileError` for a value out of its range."""
    found: dict[str, Any] = dict(modelfile.parameters)
    layers, attention = modelfile.last("GPU_LAYERS"), modelfile.last("FLASH_ATTENTION")
    thinking = modelfile.settings("THINKING")
    if layers is not None:
        found["gpu_layers"] = layers
    if "enabled" in thinking:
        found["thinking"] = thinking["enabled"]
    warnings = [f"PARAMETER {name} has no effect: a full context ends the text"
                for name in WITHOUT_EFFECT if name in found]
    if attention is False:
        warnings.append("FLASH_ATTENTION false has no effect: attention never keeps all scores")
    if {"start", "end"} & set(thinking):
        warnings.append("THINKING start and end have no effect: the chat template shows them")
    for name, value in found.items():
        try:
            check(name, value)
        except InvalidArgument as error:
            what = "GPU_LAYERS" if name == "gpu_layers" else f"PARAMETER {name}"
            raise ModelfileError(f"{what} can't be followed: {error.message}",
                                 hint=error.hint or "correct this value") from None
    return found, warnings


def _check_template(text: str) -> None:
    """Raise :class:`~unladen.errors.TemplateError` for a Go template that is malformed. Templates
    in Jinja are compiled when they are first used: that takes a library."""
    from unladen.hub.gotemplate import GoTemplate
    from unladen.hub.gotemplate.telling import is_go
    if is_go(text):
        GoTemplate(text)


def _sources(values: Sequence[str], folder: Path | None, resolve: Resolve, look: Look) -> _Base:
    """What FROM names: one model, and what belongs to it."""
    models: list[tuple[str, _Base]] = []
    projectors: list[Path] = []
    for value in values:
        path = None if folder is None else _path(value, folder)
        if path is None:
            models.append((value, _named(value, resolve, look)))
            continue
        if path.is_dir():
            models.append((value, _in_folder(value, path, look)))
            continue
        kind, quant, problem = look(path)
        if problem:
            raise ModelNotFound(f"FROM {value}: {path} {problem}", hint="give a GGUF file")
        if kind == "projector":
            projectors.append(path)
        elif kind == "model":
            models.append((value, _Base(_with_parts(path), quant)))
        else:
            raise ModelfileError(f"FROM {value} is not a model, but of kind {kind}",
                                 hint="name the model's own file")
    if len(models) != 1:
        raise ModelfileError(f"FROM must name one model, got {len(models)}: "
                             f"{', '.join(value for value, _ in models) or 'projectors alone'}",
                             hint="a second FROM may name its projector")
    base = models[0][1]
    return replace(base, projectors=(*base.projectors, *projectors))


def _path(value: str, folder: Path) -> Path | None:
    """The file or folder that ``value`` names; None where it is a model's name. One that exists
    wins over a name. Raises :class:`ModelNotFound` for a path that leads nowhere."""
    text = os.path.expanduser(value)
    path = folder / text
    try:
        if path.exists():
            return path
    except (OSError, ValueError):
        pass  # it isn't a path, or can't be looked at, as the error below says
    if value.startswith(_PATH_BEGINS) or value[1:3] == ":\\":
        from unladen.paths import problem_of
        problem = problem_of(str(path))
        raise ModelNotFound(f"FROM {value}: {path} {problem.what if problem else 'is gone'}",
                            hint=(problem.hint if problem else "") or "check the path")
    return None


def _file(value: str, folder: Path | None, instruction: str) -> Path:
    path = (folder or Path()) / os.path.expanduser(value)
    if folder is None or "\0" in value or not path.is_file():
        raise ModelNotFound(f"{instruction} {value}: there is no such file", hint="check the path")
    return path


def _with_parts(path: Path) -> tuple[Path, ...]:
    """All parts of the model whose first part is at ``path``."""
    return tuple(path.with_name(name) for name in parts(path.name))


def _in_folder(value: str, path: Path, look: Look) -> _Base:
    """The only model in the folder at ``path``."""
    names = sorted(each.name for each in path.iterdir() if each.is_file())
    models = candidates(names)
    if not models and any(name.endswith((".safetensors", ".bin")) for name in names):
        raise ModelfileError(f"FROM {value} has weights that aren't GGUF", hint=(
            "llama.cpp's convert_hf_to_gguf.py makes a GGUF file of them"))
    if len(models) != 1 or models[0].missing:
        what = ("no GGUF model" if not models else f"{len(models)} models" if len(models) > 1
                else f"a model that lacks {', '.join(models[0].missing)}")
        raise ModelfileError(f"FROM {value} has {what}", hint="name the file of one model")
    files = tuple(path / name for name in models[0].files)
    kind, quant, problem = look(files[0])
    if problem or kind != "model":
        raise ModelNotFound(f"FROM {value}: {files[0]} {problem or f'is of kind {kind}'}",
                            hint="give a GGUF model")
    return _Base(files, quant or quant_of(files[0].name), projectors=tuple(
        path / name for name in names if is_gguf(name) and kind_of(name) == "projector"))


def _named(text: str, resolve: Resolve, look: Look) -> _Base:
    """The model called ``text``, with its settings."""
    path = resolve(text)
    model = _stored(text, path)
    if model is None:
        kind, quant, problem = look(path)
        if problem or kind != "model":
            raise ModelNotFound(f"{text}: {path} {problem or f'is of kind {kind}, no model'}",
                                hint="name a model")
        return _Base(_with_parts(path), quant)
    if model.adapters:
        raise InvalidArgument(f"{text} has an adapter, and adapters aren't applied yet",
                              hint="merge the adapter into the model's file first")
    return _Base(model.files or (model.path,), model.quant or look(path).quant, model.digests,
                 model.projectors, read_preset(model))


def _stored(text: str, path: Path) -> StoredModel | None:
    """The stored model that ``text``, which led to ``path``, names; None where no store has it."""
    if (made := created(text)) is not None:
        return made
    place = os.path.realpath(path)
    called = [m for m in every_called(text, None) if m.is_usable and m.place == place]
    # A name may lead to a file through a table, or only after a download.
    here = called or [m for m in listed() if m.place == place and m.record is None]
    return next(iter(here), None)


def _checked(path: Path, wanted: str) -> str:
    """``wanted``, if that is the SHA-256 of the file at ``path``. Raises :class:`UnladenError`."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted:
        raise UnladenError(f"{path} has the SHA-256 {found}, and DIGEST says {wanted}",
                           hint="get the file again, or correct DIGEST")
    return wanted

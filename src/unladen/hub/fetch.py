"""Brings files of the hub into the cache that other tools use too, and finds them there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unladen.errors import InvalidArgument, ModelNotFound, UnladenError
from unladen.hub.ref import HubFile, HubQuant
from unladen.hub.resolve import DEFAULT_QUANT, parts, pick


def fetch(ref: HubQuant | HubFile, *, offline: bool = False, refresh: bool = False,
          progress: type | None = None) -> Path:
    """The local path of ``ref``, of a split model the first part; all parts lie beside it.

    What is in the cache is taken from there without a look at the network, unless ``refresh``
    asks whether the hub has something newer. ``offline``, or ``HF_HUB_OFFLINE`` in the
    environment, never touches the network. ``progress``: a class like ``tqdm`` that is told how far
    downloads are; None: the hub's client shows that in its own way.

    Raises :class:`ModelNotFound` where the model is neither in the cache nor on the hub or the hub
    can't be reached, :class:`InvalidArgument` where several models fit, and :class:`UnladenError`
    where the hub or the disk refuses.
    """
    from huggingface_hub import constants

    if offline or constants.HF_HUB_OFFLINE:
        return _in_cache(ref)
    if not refresh:
        # A quant nobody asked for must not win only because it happens to be in the cache.
        exact = (HubQuant(ref.repo, ref.quant or DEFAULT_QUANT, ref.revision)
                 if isinstance(ref, HubQuant) else ref)
        try:
            return _in_cache(exact)
        except (ModelNotFound, InvalidArgument):
            pass  # not there, or not clear which: the hub decides
    return _download(ref, progress)


def _download(ref: HubQuant | HubFile, progress: type | None) -> Path:
    from huggingface_hub import HfApi, hf_hub_download

    shown: dict[str, Any] = {} if progress is None else {"tqdm_class": progress}
    with _typed_errors(ref):
        if isinstance(ref, HubFile):
            names: Sequence[str] = parts(ref.filename)
        else:
            names = pick(HfApi().list_repo_files(ref.repo, revision=ref.revision), ref.quant,
                         where=ref.repo)
        paths = [Path(hf_hub_download(ref.repo, name, revision=ref.revision, **shown))
                 for name in names]
    return _together(ref, paths)


def _in_cache(ref: HubQuant | HubFile) -> Path:
    from huggingface_hub import constants, try_to_load_from_cache

    where = f"{ref.repo} in the cache {constants.HF_HUB_CACHE}"
    names = (parts(ref.filename) if isinstance(ref, HubFile)
             else pick(_cached_names(ref), ref.quant, where=where))
    paths = []
    for name in names:
        path = try_to_load_from_cache(ref.repo, name, revision=ref.revision,
                                      cache_dir=constants.HF_HUB_CACHE)
        if not isinstance(path, str):
            raise ModelNotFound(f"{where} has no {name}",
                                hint="pull the model while there is a network")
        paths.append(Path(path))
    return _together(ref, paths)


def _cached_names(ref: HubQuant) -> list[str]:
    from huggingface_hub import CacheNotFound, constants, scan_cache_dir

    try:
        repos = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:
        repos = frozenset()
    return [file.file_path.relative_to(revision.snapshot_path).as_posix()
            for repo in repos if repo.repo_id == ref.repo and repo.repo_type == "model"
            for revision in repo.revisions
            if ref.revision in revision.refs or ref.revision == revision.commit_hash
            for file in revision.files]


def _together(ref: HubQuant | HubFile, paths: Sequence[Path]) -> Path:
    if len({path.parent for path in paths}) > 1:
        raise UnladenError(f"the parts of {ref.repo} are of different revisions",
                           hint="the repository has just changed: pull the model again")
    return paths[0]


@contextmanager
def _typed_errors(ref: HubQuant | HubFile) -> Iterator[None]:
    from huggingface_hub import errors

    # The HTTP client is httpx or httpx2, depending on the version of huggingface_hub.
    http_error = next(c for c in errors.HfHubHTTPError.__mro__
                      if issubclass(c, Exception) and c.__name__ == "HTTPError")
    page = f"https://huggingface.co/{ref.repo}"
    try:
        yield
    except UnladenError:
        raise
    except errors.GatedRepoError as error:
        raise UnladenError(f"{ref.repo} is gated: its owner wants you to agree first",
                           hint=f"agree at {page}, then `hf auth login` or set HF_TOKEN"
                           ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelNotFound(f"the hub has no {ref.repo}", hint=(
            "check the spelling; if it is private, `hf auth login` or set HF_TOKEN")) from error
    except errors.RevisionNotFoundError as error:
        raise ModelNotFound(f"{ref.repo} has no revision {ref.revision}",
                            hint=f"see {page}") from error
    except errors.LocalEntryNotFoundError as error:
        raise _unreachable(ref) from error
    except errors.EntryNotFoundError as error:
        name = ref.filename if isinstance(ref, HubFile) else "such file"
        raise ModelNotFound(f"{ref.repo} has no {name}", hint=f"see {page}/tree/main") from error
    except errors.HFValidationError as error:
        raise InvalidArgument(f"{ref.repo} is no name of a repository: {error}") from error
    except errors.HfHubHTTPError as error:
        raise UnladenError(f"the hub refused {ref.repo}: {error}",
                           hint="try again later") from error
    except (http_error, ConnectionError) as error:
        raise _unreachable(ref) from error
    except OSError as error:
        raise UnladenError(f"{ref.repo} can't be stored: {error}",
                           hint="check the free space and permissions of the cache (HF_HOME)"
                           ) from error


def _unreachable(ref: HubQuant | HubFile) -> ModelNotFound:
    return ModelNotFound(f"the hub can't be reached for {ref.repo}",
                         hint="check the network, or name a model that is in the cache")

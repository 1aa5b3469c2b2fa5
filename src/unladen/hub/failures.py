"""Turns errors of the hub's client into :class:`UnladenError`: what, where, what to try."""

from __future__ import annotations

import errno
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from unladen.errors import DiskFull, InvalidArgument, ModelNotFound, UnladenError
from unladen.hub.ref import HubFile, HubQuant

LOG_IN: Final = "`hf auth login` or set HF_TOKEN"
"""What to do where the hub wants a token, for hints."""
FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The system's errors for a full disk, and for a limit on space or on a file's size."""
DEFAULT_ENDPOINT: Final = "https://huggingface.co"
"""The hub's address where ``HF_ENDPOINT`` names no other."""


class Unreachable(ModelNotFound):
    """The hub can't be reached over the network."""


def http_error() -> type[Exception]:
    """The base class of the errors of the HTTP client, which is httpx or httpx2 depending on the
    version of huggingface_hub."""
    from huggingface_hub import errors
    return next(c for c in errors.HfHubHTTPError.__mro__
                if issubclass(c, Exception) and c.__name__ == "HTTPError")


@contextmanager
def typed_errors(ref: HubQuant | HubFile) -> Iterator[None]:
    """Turn errors that the hub's client raises for ``ref`` into an :class:`UnladenError`."""
    from huggingface_hub import constants, errors

    page = f"{constants.ENDPOINT}/{ref.repo}"
    try:
        yield
    except UnladenError:
        raise
    except errors.GatedRepoError as error:
        raise UnladenError(f"{ref.repo} is gated: its owner wants you to agree first",
                           hint=f"agree at {page}, then {LOG_IN}") from error
    except errors.RepositoryNotFoundError as error:
        raise ModelNotFound(f"the hub has no {ref.repo}", hint=(
            f"check the spelling; if it is private, {LOG_IN}")) from error
    except errors.RevisionNotFoundError as error:
        raise ModelNotFound(f"{ref.repo} has no revision {ref.revision}",
                            hint=f"see {page}") from error
    except errors.LocalEntryNotFoundError as error:
        if isinstance(error.__cause__, errors.HfHubHTTPError):
            raise _refused(ref, error.__cause__) from error
        raise _unreachable(ref, error) from error
    except errors.EntryNotFoundError as error:
        name = ref.filename if isinstance(ref, HubFile) else "such file"
        raise ModelNotFound(f"{ref.repo} has no {name}", hint=f"see {page}/tree/main") from error
    except errors.HFValidationError as error:
        raise InvalidArgument(f"{ref.repo} isn't a valid repository name: {error}") from error
    except errors.HfHubHTTPError as error:
        raise _refused(ref, error) from error
    except (http_error(), ConnectionError) as error:
        raise _unreachable(ref, error) from error
    except OSError as error:
        raise _not_stored(ref, error) from error
    except (ValueError, TypeError, KeyError) as error:
        # The address is malformed, or the page that answers isn't the hub's.
        raise UnladenError(f"the answer for {ref.repo} from {constants.ENDPOINT} isn't the hub's: "
                           f"{_line(error)}", hint=(
            f"a page to log in to the network may answer in the hub's place{_around()}")
                           ) from error


def _refused(ref: HubQuant | HubFile, error: Any) -> UnladenError:
    """The error for an HTTP status with which the hub or a proxy refuses a request."""
    response: Any = getattr(error, "response", None)
    status = getattr(response, "status_code", 0)
    if status == 429:
        seconds = response.headers.get("retry-after", "")
        wait = f"wait {seconds} s" if seconds.isdigit() else "wait a while"
        return UnladenError(f"the hub has had too many requests from here (for {ref.repo})",
                            hint=f"{wait}; with an account there may be more: {LOG_IN}")
    if status in (401, 403):
        return UnladenError(f"the hub refused {ref.repo}: status {status}",
                            hint=f"a token is missing, wrong or has expired: {LOG_IN}")
    if status == 407:
        return UnladenError(f"a proxy refused {ref.repo}: it wants a password (status 407)",
                            hint=f"put it into the proxy's address{_around()}")
    if status == 404:
        return ModelNotFound(f"the hub has no {ref.repo}", hint=f"check the spelling{_around()}")
    return UnladenError(f"the hub refused {ref.repo}: {_line(error)}", hint="try again later")


def _not_stored(ref: HubQuant | HubFile, error: OSError) -> UnladenError:
    from huggingface_hub import constants
    if error.errno in FULL:
        return DiskFull(f"{ref.repo} doesn't fit on the disk of {constants.HF_HUB_CACHE}: "
                        f"{error.strerror}", hint="make room there, or set HF_HOME to another disk")
    if error.errno is None and "onsistency" in str(error):  # the client's own check
        return broken_off(ref)
    return UnladenError(f"{ref.repo} can't be stored: {_line(error)}", hint=(
        "check the permissions of the cache (HF_HOME)"))


def broken_off(ref: HubQuant | HubFile) -> UnladenError:
    """The error for a download that ended early again and again."""
    return UnladenError(f"the download of {ref.repo} broke off", hint=(
        f"start it again: it goes on where it ended{_around()}"))


def _unreachable(ref: HubQuant | HubFile, error: BaseException) -> UnladenError:
    """The error for a request without an answer. The reason is in the chain of causes."""
    reasons = list(_causes(error))
    text = " ".join(f"{type(r).__name__} {r}" for r in reasons)
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate verify" in text:
        return UnladenError(f"the hub's certificate isn't trusted (for {ref.repo})", hint=(
            "check the clock; behind a proxy that looks into connections, set SSL_CERT_FILE to its "
            "certificates"))
    if any(type(r).__name__ in ("RemoteProtocolError", "ReadError") for r in reasons):
        return Unreachable(f"the connection to the hub broke off (for {ref.repo})",
                           hint=f"start it again{_around()}")
    return Unreachable(f"the hub can't be reached for {ref.repo}", hint=(
        f"check the network, or name a model that is in the cache{_around()}"))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _around() -> str:
    """The environment's settings that redirect requests (proxy, other endpoint), for a hint."""
    from huggingface_hub import constants
    proxies = urllib.request.getproxies()
    found = [f"{name} is {value}" for name, value in (
        ("the proxy", proxies.get("https") or proxies.get("http") or proxies.get("all")),
        ("HF_ENDPOINT", "" if constants.ENDPOINT == DEFAULT_ENDPOINT else constants.ENDPOINT))
        if value]
    return f" ({', '.join(_without_password(each) for each in found)})" if found else ""


def _without_password(text: str) -> str:
    before, at, after = text.rpartition("@")
    scheme, slashes, _ = before.rpartition("://")
    return f"{scheme}{slashes}...@{after}" if at and slashes else text


def _line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return " ".join(text.splitlines()[0].split())[:200]

"""A process that has loaded a libggml."""

import pytest

from cases import libggml
from unladen.backends import backend_of
from unladen.backends.ggml.backend import GgmlBackend
from unladen.errors import BackendNotInitialised


@pytest.fixture(scope="session")
def ggml() -> GgmlBackend:
    """The backend, or skip where there is no library."""
    try:
        libggml.load()
    except BackendNotInitialised as error:
        pytest.skip(f"{error}: {error.hint}")
    backend = backend_of("ggml")
    assert isinstance(backend, GgmlBackend)
    return backend

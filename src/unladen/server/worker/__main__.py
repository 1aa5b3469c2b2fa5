"""Runs a worker: the first message says what for."""

from __future__ import annotations

import sys

from unladen.server.worker.guard import die_with_parent
from unladen.server.worker.link import Link


def main() -> None:
    """Answer what the server asks, until it closes the connection."""
    die_with_parent(int(sys.argv[1]))
    link = Link.of_standard_streams()
    kind, *content = link.first()
    if kind == "load":
        from unladen.server.worker.serving import serve
        serve(link, int(sys.argv[2]) if len(sys.argv) > 2 else None, *content)
    elif kind == "inspect":
        from unladen.server.worker.inspecting import inspect
        inspect(link, *content)
    elif kind == "desk":
        from unladen.server.worker.desk import answer
        answer(link, *content)
    elif kind == "download":
        from unladen.server.worker.fetching import download
        download(link, *content)
    elif kind == "change":
        from unladen.server.worker.changing import change
        change(link, *content)
    else:
        raise SystemExit(f"a worker can't {kind!r}")


if __name__ == "__main__":
    main()

"""The server's side of the page: ``/ui/api`` and the page's files.

``shapes.py`` describes every answer, ``bodies.py`` every request, ``routes.py`` has the routes,
``page.py`` sends the page's files. ``service.py`` is what lives as long as the server: ``feed.py``
numbers events, ``samples.py`` and ``lines.py`` keep the last metrics and lines of the log,
``desk.py`` asks a process of its own for what needs models' headers or the hub. These routes are
for the page of the same version: they may change with every release.
"""

"""The server: HTTP in one process, each model in a worker process of its own.

``asked.py`` has what a client can ask for, ``events.py`` what comes back, ``faults.py`` what can go
wrong. Dialects (OpenAI, Anthropic, Ollama, llama-server) translate between these and what their
clients speak. ``core.py`` is what they see of the models. The process that speaks HTTP loads no
weights and no NumPy; the workers of ``worker/`` do, which ``supervisor/`` starts. ``ui/`` has the
page's own routes.

A request comes through ``connection.py`` (slow clients), ``guard.py`` (keys, hosts, origins),
``app.py`` (routes), ``bodies.py`` (JSON) and ``observed.py`` (bounds and counts) to its dialect.
``listening.py`` has the sockets, signals and the end; ``config.py`` reads the settings.
"""

"""The process that has one model: ``python -m unladen.server.worker``.

It reads frames from its standard input and writes frames to its standard output (``link.py``). A
thread reads; a few threads prepare requests (``preparing.py``); the main thread runs the engine's
steps for all of them and sends what each step brought (``loop.py``). ``inspecting.py`` is what a
worker does that only looks at a file, ``changing.py`` one that copies, makes or removes a model.
"""

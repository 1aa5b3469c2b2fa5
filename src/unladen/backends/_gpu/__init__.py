"""Code that the backends for graphics processors share.

``drivers.py`` asks which drivers there are. The other modules choose the kernels for a node, with
their constants, ranges and grids. They know a language of kernel texts and a driver only by the
protocols in ``target.py``.
"""

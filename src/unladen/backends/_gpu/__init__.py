"""What the backends for graphics processors share.

``drivers.py`` asks which drivers there are. All else is dispatch: which kernels a node takes, with
which constants, ranges and grid. A family of kernel texts and a driver stand behind the protocols
in ``target.py``; nothing here names a language or a driver.
"""

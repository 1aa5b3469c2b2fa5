"""Every parameter once: its type, allowed values, default, and its names in other programs.

``model`` and ``sampling`` hold the tables, ``kinds`` the kinds of values, ``pasted`` the names of
other programs.
"""

from __future__ import annotations

from unladen.parameters.kinds import token_ids
from unladen.parameters.table import Parameter, Table, described

__all__ = ["Parameter", "Table", "described", "token_ids"]

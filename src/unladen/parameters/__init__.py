"""Every parameter once: its types, what it takes, its default, and what it is called elsewhere.

``model`` and ``sampling`` hold the tables, ``kinds`` what values there are, ``pasted`` the names of
other programs.
"""

from __future__ import annotations

from unladen.parameters.kinds import token_ids
from unladen.parameters.table import Parameter, Table, described

__all__ = ["Parameter", "Table", "described", "token_ids"]

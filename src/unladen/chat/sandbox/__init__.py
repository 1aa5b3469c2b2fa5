"""Runs templates of strangers within limits on time, memory and output.

jinja2's immutable sandbox keeps templates away from Python's inner objects and from changing the
caller's data. It limits no loop, no string and no nesting; this package adds these limits. A
template is compiled into code that counts every block that it enters. Every operator, method and
filter that can make something large says before how large it becomes.
"""

from unladen.chat.sandbox.budget import Budget, size_of
from unladen.chat.sandbox.environment import Compiled, compiled
from unladen.chat.sandbox.limits import LimitExceeded, Refused

__all__ = ["Budget", "Compiled", "LimitExceeded", "Refused", "compiled", "size_of"]

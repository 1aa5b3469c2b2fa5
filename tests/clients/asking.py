"""What all clients ask."""

from __future__ import annotations

import ast
import operator
from typing import Any

HELLO = [{"role": "user", "content": "Hello! Who are you?"}]
SUM = [{"role": "user", "content": "What is 12 plus 30?"}]
EXPRESSION = {"type": "object", "properties": {"expression": {
    "type": "string", "description": "For example 2 + 3."}}, "required": ["expression"]}
CALCULATOR: dict[str, Any] = {"type": "function", "function": {
    "name": "calculator", "description": "Works out an expression.", "parameters": EXPRESSION}}
"""The tool that the model was taught."""
_SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def worked_out(expression: str) -> str:
    """The value of a sum, a difference or a product."""
    body = ast.parse(expression, mode="eval").body
    assert isinstance(body, ast.BinOp) and isinstance(body.left, ast.Constant) and isinstance(
        body.right, ast.Constant), expression
    sign: Any = _SIGNS[type(body.op)]  # type: ignore[index]
    return str(sign(body.left.value, body.right.value))

"""Phi 3 and 3.5."""

from typing import Final

TEMPLATE: Final = """\
{%- for message in messages -%}
{{ '<|' ~ message.role ~ '|>\\n' ~ message.content ~ '<|end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|assistant|>\\n' }}
{%- endif -%}
"""
"""The format as a template."""

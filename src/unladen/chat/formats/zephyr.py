"""Zephyr and TinyLlama chat."""

from typing import Final

TEMPLATE: Final = """\
{%- for message in messages -%}
{{ '<|' ~ message.role ~ '|>\\n' ~ message.content ~ eos_token ~ '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|assistant|>\\n' }}
{%- endif -%}
"""
"""The format as a template."""

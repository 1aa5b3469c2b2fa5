"""Phi 4."""

from typing import Final

TEMPLATE: Final = """\
{%- for message in messages -%}
{{ '<|im_start|>' ~ message.role ~ '<|im_sep|>' ~ message.content ~ '<|im_end|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant<|im_sep|>' }}
{%- endif -%}
"""
"""The format as a template."""

"""Granite 3."""

from typing import Final

TEMPLATE: Final = """\
{%- for message in messages -%}
{{ '<|start_of_role|>' ~ message.role ~ '<|end_of_role|>' ~ message.content }}
{{- '<|end_of_text|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|start_of_role|>assistant<|end_of_role|>' }}
{%- endif -%}
"""
"""The format as a template."""

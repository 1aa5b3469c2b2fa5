"""Llama 3 instruct."""

from typing import Final

TEMPLATE: Final = """\
{{ bos_token }}
{%- for message in messages -%}
{{ '<|start_header_id|>' ~ message.role ~ '<|end_header_id|>\\n\\n' ~ message.content|trim }}
{{- '<|eot_id|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif -%}
"""
"""The format as a template."""

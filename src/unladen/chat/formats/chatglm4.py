"""GLM 4."""

from typing import Final

TEMPLATE: Final = """\
{{ '[gMASK]<sop>' }}
{%- for message in messages -%}
{{ '<|' ~ message.role ~ '|>\\n' ~ message.content }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|assistant|>' }}
{%- endif -%}
"""
"""The format as a template."""

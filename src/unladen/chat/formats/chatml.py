"""ChatML, as OpenAI published it: Qwen and many others."""

from typing import Final

TEMPLATE: Final = """\
{%- for message in messages -%}
{{ '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- endif -%}
"""
"""The format as a template."""

"""Alpaca: instructions and responses under headings."""

from typing import Final

TEMPLATE: Final = """\
{{ bos_token }}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{{ message.content ~ '\\n\\n' }}
{%- elif message.role == 'user' -%}
{{ '### Instruction:\\n' ~ message.content ~ '\\n\\n' }}
{%- elif message.role == 'assistant' -%}
{{ '### Response:\\n' ~ message.content ~ eos_token ~ '\\n\\n' }}
{%- else -%}
{{ raise_exception('the format alpaca has no role ' ~ message.role) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '### Response:\\n' }}
{%- endif -%}
"""
"""The format as a template."""

"""RWKV World: names and colons."""

from typing import Final

TEMPLATE: Final = """\
{%- set names = {'system': 'System', 'user': 'User', 'assistant': 'Assistant'} -%}
{%- for message in messages -%}
{{ names[message.role] ~ ': ' ~ message.content|trim ~ '\\n\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ 'Assistant:' }}
{%- endif -%}
"""
"""The format as a template."""

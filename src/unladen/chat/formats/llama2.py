"""Llama 2 chat: the system text is inside the first instruction."""

from typing import Final

TEMPLATE: Final = """\
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = '<<SYS>>\\n' ~ message.content ~ '\\n<</SYS>>\\n\\n' -%}
{%- elif message.role == 'user' -%}
{{ bos_token ~ '[INST] ' ~ ns.system ~ message.content|trim ~ ' [/INST]' }}
{%- set ns.system = '' -%}
{%- elif message.role == 'assistant' -%}
{{ ' ' ~ message.content|trim ~ ' ' ~ eos_token }}
{%- else -%}
{{ raise_exception('the format llama2 has no role ' ~ message.role) }}
{%- endif -%}
{%- endfor -%}
"""
"""The format as a template."""

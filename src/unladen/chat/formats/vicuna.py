"""Vicuna 1.1 and later."""

from typing import Final

TEMPLATE: Final = """\
{{ bos_token }}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{{ message.content ~ ' ' }}
{%- elif message.role == 'user' -%}
{{ 'USER: ' ~ message.content ~ ' ' }}
{%- elif message.role == 'assistant' -%}
{{ 'ASSISTANT: ' ~ message.content ~ eos_token }}
{%- else -%}
{{ raise_exception('the format vicuna has no role ' ~ message.role) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ 'ASSISTANT:' }}
{%- endif -%}
"""
"""The format as a template."""

"""Mistral instruct, version 3: the system text begins the user's last turn."""

from typing import Final

TEMPLATE: Final = """\
{{ bos_token }}
{%- set ns = namespace(system='', users=0) -%}
{%- set n_users = messages|selectattr('role', 'equalto', 'user')|list|length -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = message.content ~ '\\n\\n' -%}
{%- elif message.role == 'user' -%}
{%- set ns.users = ns.users + 1 -%}
{{ '[INST] ' ~ (ns.system if ns.users == n_users) ~ message.content ~ '[/INST]' }}
{%- elif message.role == 'assistant' -%}
{{ ' ' ~ message.content|trim ~ eos_token }}
{%- else -%}
{{ raise_exception('the format mistral has no role ' ~ message.role) }}
{%- endif -%}
{%- endfor -%}
"""
"""The format as a template."""

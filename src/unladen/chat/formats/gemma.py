"""Gemma, Gemma 2 and 3: the system text begins the first turn of the user."""

from typing import Final

TEMPLATE: Final = """\
{{ bos_token }}
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{%- set ns.system = message.content ~ '\\n\\n' -%}
{%- else -%}
{%- set role = 'model' if message.role == 'assistant' else message.role -%}
{{ '<start_of_turn>' ~ role ~ '\\n' ~ (ns.system ~ message.content)|trim ~ '<end_of_turn>\\n' }}
{%- set ns.system = '' -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<start_of_turn>model\\n' }}
{%- endif -%}
"""
"""The format as a template."""

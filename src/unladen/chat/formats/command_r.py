"""Command R, by Cohere."""

from typing import Final

NAMES: Final = ("command-r",)
"""The names of this format."""
TEMPLATE: Final = """\
{%- set names = {'system': 'SYSTEM', 'user': 'USER', 'assistant': 'CHATBOT'} -%}
{{ bos_token }}
{%- for message in messages -%}
{%- if message.role not in names -%}
{{ raise_exception('the format command-r has no role ' ~ message.role) }}
{%- endif -%}
{{ '<|START_OF_TURN_TOKEN|><|' ~ names[message.role] ~ '_TOKEN|>' ~ message.content|trim }}
{{- '<|END_OF_TURN_TOKEN|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}
{%- endif -%}
"""
"""The format as a template."""

"""DeepSeek V2.5, V3 and R1."""

from typing import Final

TEMPLATE: Final = """\
{{ bos_token }}
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{{ message.content }}
{%- elif message.role == 'user' -%}
{{ '<｜User｜>' ~ message.content }}
{%- elif message.role == 'assistant' -%}
{{ '<｜Assistant｜>' ~ message.content ~ '<｜end▁of▁sentence｜>' }}
{%- else -%}
{{ raise_exception('the format deepseek has no role ' ~ message.role) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<｜Assistant｜>' }}
{%- endif -%}
"""
"""The format as a template."""

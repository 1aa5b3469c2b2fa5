"""Templates in dialects that no model has, for the general way of learning a dialect."""

from __future__ import annotations

from collections.abc import Mapping

_TURNS = """{%- for m in messages -%}
{%- if m.role == 'user' or m.role == 'system' -%}<|turn|>@role@
{{ m.content }}<|done|>
{%- elif m.role == 'assistant' -%}<|turn|>bot
{% if m.reasoning_content %}<ponder>{{ m.reasoning_content }}</ponder>{% endif -%}
{{- m.content or '' -}}
@calls@<|done|>
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|turn|>bot
{% endif -%}"""


def _turns(calls: str) -> str:
    return _TURNS.replace("@role@", "{{ m.role }}").replace("@calls@", calls)


def _each(call: str, before: str = "", after: str = "", between: str = "") -> str:
    gap = "{% if not loop.last %}" + between + "{% endif %}" if between else ""
    return ("{%- if m.tool_calls -%}" + before + "{%- for t in m.tool_calls -%}"
            "{%- set f = t.function -%}" + call + gap + "{%- endfor -%}" + after + "{%- endif -%}")


_ITEMS = "{%- for k, v in f.arguments.items() -%}"
_RAW = "{{ v if v is string else v | tojson }}"

TEMPLATES: Mapping[str, str] = {
    "elements": _turns(_each(
        "<use tool=\"{{ f.name }}\">\n" + _ITEMS + "<{{ k }}>" + _RAW + "</{{ k }}>\n{% endfor %}"
        "</use>\n", "<uses>\n", "</uses>")),
    "name_is_tag": _turns(_each(
        "<{{ f.name }}>" + _ITEMS + "<{{ k }}>" + _RAW + "</{{ k }}>{% endfor %}</{{ f.name }}>")),
    "suffixed_tags": _turns(_each(
        "<|call_begin:{{ f.name }}|>{{ f.arguments | tojson }}<|call_end:{{ f.name }}|>")),
    "recipient": _turns(_each(
        "<|to|>{{ f.name }}<|says|>{{ f.arguments | tojson }}<|over|>")),
    "id_in_mark": _turns(_each(
        "<call id=\"{{ t.id }}\" name=\"{{ f.name }}\">{{ f.arguments | tojson }}</call>", "",
        "", "\n")),
    "id_in_json": _turns(_each(
        "{{ {'tool': f.name, 'input': f.arguments, 'ref': t.id} | tojson }}", "[[USE]][",
        "][[/USE]]", ", ")),
    "whole_call": _turns(_each("{{ t | tojson }}", "<calls>", "</calls>", ";")),
    "numbered": _turns(_each(
        "<|fn_{{ loop.index0 }}|>{{ f.name }}<|args|>{{ f.arguments | tojson }}<|/fn|>",
        "<|fns|>", "<|/fns|>")),
    "in_attributes": _turns(_each(
        "<run fn=\"{{ f.name }}\"{% for k, v in f.arguments.items() %} {{ k }}={{ v | tojson }}"
        "{% endfor %}/>")),
    "python": _turns(_each(
        "{{ f.name }}(" + _ITEMS + "{{ k }}={{ v | tojson }}"
        "{% if not loop.last %}, {% endif %}{% endfor %})", "<|py|>", "<|/py|>", "\n")),
    "lines": _turns(_each(
        "@@call {{ f.name }}\n{% for k, v in f.arguments.items() %}{{ k }}: " + _RAW
        + "\n{% endfor %}@@end\n")),
    "typed": _turns(_each(
        "<fn:{{ f.name }}>" + _ITEMS + "<arg n=\"{{ k }}\" t=\"{{ 'text' if v is string else "
        "'data' }}\">" + _RAW + "</arg>{% endfor %}</fn>")),
    "escaped": _turns(_each(
        "<do what=\"{{ f.name }}\">" + _ITEMS + "<with key=\"{{ k }}\">"
        "{{ (v if v is string else v | tojson) | e }}</with>{% endfor %}</do>")),
    "python_dict": _turns(_each("<go>{{ f.name }}: {{ f.arguments }}</go>")),
    "unmarked": _turns(_each("{\"fn\": \"{{ f.name }}\", \"with\": {{ f.arguments | tojson }}}")),
    "pretty": _turns(_each(
        "```call\n{{ {'name': f.name, 'arguments': f.arguments} | tojson(indent=2) }}\n```\n")),
    "id_behind": _turns(_each(
        "<step><what>{{ f.name }}</what><with>{{ f.arguments | tojson }}</with>"
        "<ref>{{ t.id }}</ref></step>")),
    "quoted_values": _turns(_each(
        "<tool_call><name>{{ f.name }}</name>" + _ITEMS + "<p key=\"{{ k }}\">{{ v | tojson }}</p>"
        "{% endfor %}</tool_call>")),
    "list_of_python": _turns(_each(
        "{{ f.name }}(" + _ITEMS + "{{ k }}={{ v | tojson }}"
        "{% if not loop.last %}, {% endif %}{% endfor %})", "<|tool|>[", "]<|/tool|>", ", ")),
    "in_an_object": _turns(_each(
        "{{ {'name': f.name, 'args': f.arguments} | tojson }}", "{\"calls\": [", "]}", ", ")),
    "json_lines": _turns(_each(
        "{{ {'name': f.name, 'arguments': f.arguments} | tojson }}\n", "<tool_calls>\n",
        "</tool_calls>")),
    "name_is_element": _turns(_each(
        "<tool_call>\n<tool_name>{{ f.name }}</tool_name>\n" + _ITEMS + "<{{ k }}>" + _RAW
        + "</{{ k }}>\n{% endfor %}</tool_call>\n")),
    "constant_suffix": _turns(_each(
        "<tool_call:6124c78e>{{ {'name': f.name, 'args': f.arguments} | tojson }}"
        "</tool_call:6124c78e>")),
    "number_suffix": _turns(_each(
        "<call{{ loop.index }}>{{ f.name }}({{ f.arguments | tojson }})</call{{ loop.index }}>")),
    "id_attribute": _turns(_each(
        "<tool_call id=\"{{ t.id }}\">{{ {'name': f.name, 'arguments': f.arguments} | tojson }}"
        "</tool_call>", "", "", "\n")),
    "bars": _turns(_each(
        "<|go|>{{ f.name }}" + _ITEMS + "|{{ k }}=" + _RAW + "{% endfor %}<|went|>")),
    "brackets": _turns(_each(
        "【call】{{ f.name }}【args】{{ f.arguments | tojson }}【/call】")),
    "args_in_attribute": _turns(_each(
        "<invoke tool=\"{{ f.name }}\" args='{{ f.arguments | tojson }}'/>")),
    "pairs": _turns(_each(
        "<call name=\"{{ f.name }}\">" + _ITEMS + "<arg><key>{{ k }}</key><value>" + _RAW
        + "</value></arg>{% endfor %}</call>")),
    "type_first": _turns(_each(
        "<call fn={{ f.name }}>" + _ITEMS + "<p type=\"{{ 'str' if v is string else 'json' }}\" "
        "name=\"{{ k }}\">" + _RAW + "</p>{% endfor %}</call>")),
    "channels": """{%- for m in messages -%}
{%- if m.role == 'assistant' -%}
{%- if m.reasoning_content %}<|bot|><|in|>thoughts<|msg|>
{{- m.reasoning_content }}<|eom|>{% endif -%}
{%- if m.content %}<|bot|><|in|>answer<|msg|>{{ m.content }}<|eom|>{% endif -%}
{%- for t in m.tool_calls or [] -%}<|bot|><|in|>tool:{{ t.function.name }}#{{ t.id }}<|msg|>
{{- t.function.arguments | tojson }}<|eom|>{%- endfor -%}<|eot|>
{%- else -%}<|{{ m.role }}|>{{ m.content }}<|eot|>
{%- endif -%}{%- endfor -%}{% if add_generation_prompt %}<|bot|>{% endif %}""",
    "tools_behind_user": """{%- for m in messages -%}
{%- if m.role == 'assistant' -%}<bot>{{ m.content or '' }}
{%- for t in m.tool_calls or [] -%}<do>{{ t.function | tojson }}</do>{%- endfor -%}</bot>
{%- else -%}<user>{{ m.content }}{% if tools %}
You may write <do>{"name": .., "arguments": ..}</do> with {{ tools | tojson }}{% endif %}</user>
{%- endif -%}{%- endfor -%}{% if add_generation_prompt %}<bot>{% endif %}""",
    "needs_content": _turns("{{ raise_exception('empty') if not m.content }}" + _each(
        "<|use|>{{ f.name }}<|on|>{{ f.arguments | tojson }}<|used|>")),
    "always_to": """{%- for m in messages -%}
{%- if m.role == 'assistant' -%}<|from|>me
{%- if m.content %}<|to|>you<|says|>{{ m.content }}<|over|>{% endif -%}
{%- for t in m.tool_calls or [] -%}<|to|>tool.{{ t.function.name }}<|says|>
{{- t.function.arguments | tojson }}<|over|>{%- endfor -%}<|quit|>
{%- else -%}<|from|>{{ m.role }}<|to|>me<|says|>{{ m.content }}<|over|>
{%- endif -%}{%- endfor -%}{% if add_generation_prompt %}<|from|>me{% endif %}""",
    "arrow": """{%- for m in messages -%}
{%- if m.role == 'assistant' -%}<|bot|>
{%- if m.content %}-->user
{{ m.content }}{% endif -%}
{%- for t in m.tool_calls or [] -%}-->{{ t.function.name }}
{{ t.function.arguments | tojson }}{%- endfor -%}<|stop|>
{%- else -%}<|{{ m.role }}|>{{ m.content }}<|stop|>
{%- endif -%}{%- endfor -%}{% if add_generation_prompt %}<|bot|>-->{% endif %}""",
}
"""Name of a dialect -> template."""
AVOID: Mapping[str, tuple[str, ...]] = {"lines": ("\n",), "bars": ("|",)}
"""What a value can't have in a dialect: nothing tells it from the dialect's own marks."""

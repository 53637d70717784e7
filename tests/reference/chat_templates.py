#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/families/chat_templates.json: what Jinja2, with the settings of transformers, makes of dialogues.

The templates in tests/data/families are written like those of the families: shorter, with the same parts of the language.
{% generation %} stands around answers, which the texts have between U+27E6 and U+27E7. Debian: python3-jinja2.

  python3 tests/reference/chat_templates.py
"""
import json
import re
from pathlib import Path

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

FOLDER = Path(__file__).parent.parent / "data" / "families"
BEGIN, END = "\u27e6", "\u27e7"


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

    def mark(self, caller):
        return BEGIN + caller() + END


def refuse(message):
    raise TemplateError(message)


ENVIRONMENT = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
ENVIRONMENT.filters["tojson"] = lambda value, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
    value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
)
ENVIRONMENT.globals.update(raise_exception=refuse, strftime_now=lambda form: refuse("a date is given"))


def user(text):
    return {"role": "user", "content": text}


def assistant(text, *calls, **more):
    calls = [{"id": id, "type": "function", "function": {"name": f, "arguments": a}} for f, a, id in calls]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {}), **more}


def tool(text, id):
    return {"role": "tool", "content": text, "tool_call_id": id}


SYSTEM = {"role": "system", "content": " Be brief. "}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "It's <now> \u00e9\u4f60",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": " A city "},
                    "unit": {"type": "string", "enum": ["C", "F"], "$default-of": "C"},
                    "days": {"type": "integer", "maximum": 2.5, "deep": {"x": [1, None, True]}},
                },
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "add", "strict": True, "parameters": {"type": "object", "properties": {}}}},
]
TURNS = [user("2+2?"), assistant(" 4 "), user(" And \u00e9? "), assistant("\u4f60")]
CALL = ("weather", {"city": "K\u00f6ln", "days": 2, "near": [1.5, None]}, "abcdefghi")
DIALOGUES = {
    "turns": {"messages": TURNS},
    "system": {"messages": [SYSTEM, *TURNS, user("x")]},
    "last": {"messages": [SYSTEM, TURNS[0], {**TURNS[1], "weight": 0}, *TURNS[2:]]},
    "thoughts": {
        "messages": [user("a"), assistant("<think>\nhm\n</think>\n\nb"), user("c"), assistant("d", reasoning_content="\nso\n")]
    },
    "calls": {
        "messages": [SYSTEM, user("w?"), assistant(None, CALL), tool("15 C", "abcdefghi"), assistant("Mild.")],
        "variables": {"tools": TOOLS},
    },
    "more calls": {
        "messages": [
            user("w?"),
            assistant("See.", CALL, ("add", {}, "ABCDEFGHI")),
            tool("15", "abcdefghi"),
            tool("0", "ABCDEFGHI"),
            assistant("Done."),
            user("w?"),
            assistant("", CALL),
        ],
        "variables": {"tools": TOOLS},
    },
    "no thoughts": {"messages": TURNS[:2], "variables": {"enable_thinking": False, "thinking": True}},
    "built-in": {
        "messages": [user("q"), assistant("", ("search", {"query": "\u00e9", "n": "2"}, "abcdefghi"))],
        "variables": {"builtin_tools": ["search", "code_interpreter"]},
    },
}


# Each part of the language that is read, in short.
FORMS_OF = {
    "messages": [
        user("Hi you"),
        assistant("Ho", ("f", {"b": 1, "A": [1, None, True, 2.5, "\u00e9"]}, "id")),
        tool("x y  z", "id"),
    ],
    "variables": {
        "tools": [{"name": "B", "n": {"x": 2}}, {"name": "a", "n": {"x": 1}}],
        "f": 2.5,
        "i": 7,
        "s": "it's a-b (c) <D",
        "e": "",
        "l": [3, 1, 2],
        "d": {"z": 1, "a": {"k": "v"}, "M": 2},
    },
}
FORMS = r"""
{{ tools|tojson(ensure_ascii=False) }}
{{ messages[1].tool_calls|tojson(ensure_ascii=True) }}
{{ messages[1].tool_calls|tojson(indent=2) }}
{{ messages[1].tool_calls|tojson(indent=0) }}
{{ messages[1].tool_calls|tojson(separators=(',', ':'), ensure_ascii=false) }}
{{ d|tojson(sort_keys=true, indent=4) }}
{{ s|upper }}{{ s|lower }}{{ s|capitalize }}{{ s|title }}{{ s.upper() }}{{ s.capitalize() }}{{ s.lower() }}
{{ nope|default('x') }}{{ e|default('x') }}{{ e|default('x', true) }}{{ nope|d }}{{ none|default(1) }}{{ e|d('y', boolean=true) }}
{{ l|first }}{{ l|last }}{{ s|first }}{{ []|first is defined }}
{{ tools|map(attribute='name')|join(',') }}{{ tools|map(attribute='n.x')|join }}{{ ['a ',' b']|map('trim')|join('|') }}{{ ['a','b']|map('upper')|list|tojson }}{{ ['a']|map('replace', 'a', 'c')|join }}
{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 3 > 2 >= 2 }}{{ 1 == 1 == 2 }}{{ 1 < f <= 2.5 }}{{ 'a' < 'b' }}{{ 'a' in s in [s] }}{{ 2 > 1 != none }}
{% for x in [] %}a{% else %}none{% endfor %}{% for x in l %}{{ x }}{% else %}none{% endfor %}{% for x in l if x > 5 %}{{ x }}{% else %}none{% endfor %}
{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}!{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{% for y in l %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% else %}E{% endfor %}{% if loop.last %}{% continue %}{% endif %}-{% else %}F{% endfor %}
{% for x in l %}{% for y in [] %}{% else %}{% break %}{% endfor %}a{% endfor %}b
{% for x in l %}{% if x == 1 %}{% set y = 5 %}{% break %}{% else %}{{ x }}{% endif %}{% endfor %}{{ y is defined }}
{% set x %}a{{ i }}{% set y = 3 %}{% for z in l %}{{ z }}{% endfor %}{% endset %}[{{ x }}]{{ y is defined }}{{ x|length }}
{% set ns = namespace(t='') %}{% set ns.t %}q{{ i }}{% endset %}{{ ns.t }}
{{ 'user' in ('user', 'system') }}{{ (1,)|length }}{{ ()|length }}{{ ('a') }}{% for a, b in ((1, 2), (3, 4)) %}{{ a }}{{ b }}{% endfor %}
{{ True }}{{ None is none }}{{ False }}{{ [1, 2,]|length }}
{{ '-' * 3 }}{{ '-' * 0 }}{{ 'ab' * i }}
{{ i is divisibleby 7 }}{{ i is divisibleby(2) }}{{ i is odd }}{{ i is even }}{{ i is eq 7 }}{{ i is gt 3 }}{{ i is lt(3) }}{{ i in l }}{{ i is in l }}{{ i is not in l }}{{ i is ne 7 }}{{ i is integer }}{{ f is float }}{{ f is integer }}{{ none is sameas none }}{{ 'ab' is lower }}{{ 'AB' is upper }}{{ '1' is lower }}{{ true is sameas false }}
{{ messages|selectattr('tool_calls')|list|length }}{{ messages|selectattr('role', '==', 'user')|list|length }}{{ messages|selectattr('role','equalto','user')|map(attribute='content')|first }}{{ l|select|list|length }}{{ l|select('gt', 1)|join(',') }}{{ l|reject('odd')|join }}{{ messages|rejectattr('tool_calls', 'defined')|list|length }}{{ tools|selectattr('n.x', 'eq', 2)|list|length }}
{{ l|sort|join }}{{ l|sort(reverse=true)|join }}{{ tools|sort(attribute='name')|map(attribute='name')|join }}{{ ['b','A','c']|sort|join }}{{ ['b','A','c']|sort(case_sensitive=true)|join }}{{ l|reverse|join }}{{ 'abc'|reverse }}
{% for k, v in d|dictsort %}{{ k }}{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for k, v in d.items() %}{{ k }}{% endfor %}{{ d.values()|list|length }}
{{ ', '.join(['a', 'b']) }}{{ s.split()|join('_') }}{{ 'a b c d'.split(none, 2)|join('_') }}{{ ' a  b '.split()|length }}{{ 'a,b,c'.split(',', 1)|last }}
{% for n in range(3) %}{{ n }}{% endfor %}{{ range(1, 6, 2)|join }}{{ range(5, 0, -2)|join }}{{ range(0)|list|length }}
{% macro m(a, b=1, c='z') %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1, c=2) }}{{ m(b=3, a=4) }}{{ m() }}{{ m(1, 2) }}
{{ dict(a=1)|tojson }}{{ dict(a=1).a }}{{ {'a': 'x'}['a'] }}{{ {'k': d}.k.a.k }}
{{ '42'|int + 1 }}{{ 3.9|int }}{{ -3.9|int }}{{ '\u00e9\x41\u4f60' }}
{{ not 1 < 2 < 1 }}{{ 1 in [1] and 2 in [1] }}{{ 'x' ~ 1.50 ~ none }}
{{ tools|tojson|length }}{{ (tools|map(attribute='name')|list)[0] }}
{% if tools and tools|length > 1 %}{{ tools[-1].name }}{% endif %}{{ messages[::-1][0].role }}
{{ s is string and s is not mapping }}{{ nope is defined and nope.x }}{{ (nope if nope else 'n') }}
{{ 5 if i > 3 else 2.5 }}{{ 10 // 4 }}{{ 10 % 4 }}{{ 1.5 < 2 }}{{ 3 * 'ab' if false else '' }}
{{ d.get('q', {}) |length }}{{ d.get('q') }}{{ d.get('z') }}{{ d.get('a', {}).get('k', '') }}
{{ ('a' if i else 'b') | upper }}{{ ['x']|join(attribute='y') if false }}{{ tools|join('-', attribute='name') }}
{{ 'Ab cD' | title }}{{ "don't stop" | title }}{{ '1ab c'|title }}{{ 'ABC dEF'|capitalize }}
{{ {}|tojson(indent=4) }}{{ []|tojson }}{{ {'a': {'b': [1, 2.0]}, "c": 3,} | tojson }}
{{ 1.5 + 1 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 * 1.5 }} {{ f - 1 }} {{ i // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 1.0 }} {{ 0.1 + 0.2 }} {{ 100000000.0 * 10000000 }} {{ 0.00001 * 1 }}
{{ -i|string }}{{ -f }}{{ - 3 + 5 }}{{ l|count }}
{{ [1, 'a', {'b': none}] | tojson }}{{ {'a': '}}'}|tojson }}{{ '%}' }}{{ {'a': {'b': {}}}|tojson }}
{{ f|int * 2 }}{{ 1 == 1.0 }}{{ true == 1.0 }}
{{ 1 < 0 < nope.x }}
"""


def rendered(template, dialogue, prompt):
    variables = {"tools": None, "date_string": "26 Jul 2024", **dialogue.get("variables", {})}
    try:
        return ENVIRONMENT.from_string(template).render(
            messages=dialogue["messages"], add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>", **variables
        )
    except (TemplateError, TypeError):  # the template refuses the dialogue, or does not know such messages
        return None


def learned(text, dialogue):
    """Without the marks around answers that have no weight."""
    weights = iter([m.get("weight", 1) for m in dialogue["messages"] if m["role"] == "assistant"])
    return re.sub(f"{BEGIN}(.*?){END}", lambda m: m[0] if next(weights) else m[1], text, flags=re.DOTALL)


def main():
    results = {}
    for file in sorted(FOLDER.glob("*.jinja")):
        template = file.read_text()
        for name, dialogue in DIALOGUES.items():
            text, prompt = (rendered(template, dialogue, p) for p in (False, True))
            results.setdefault(file.stem, {})[name] = text and {
                "text": learned(text, dialogue),
                "prompt": prompt.replace(BEGIN, "").replace(END, ""),
            }
    for dialogue in DIALOGUES.values():
        dialogue.setdefault("variables", {})["date_string"] = "26 Jul 2024"
    forms = {}
    for form in FORMS.strip().split("\n"):
        forms[form] = ENVIRONMENT.from_string(form).render(messages=FORMS_OF["messages"], **FORMS_OF["variables"])
    all = {"dialogues": DIALOGUES, "families": results, "forms of": FORMS_OF, "forms": forms}
    (FOLDER / "chat_templates.json").write_text(json.dumps(all, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()

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


ENVIRONMENT = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation])
ENVIRONMENT.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
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
    all = {"dialogues": DIALOGUES, "families": results}
    (FOLDER / "chat_templates.json").write_text(json.dumps(all, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()

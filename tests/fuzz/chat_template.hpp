// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A chat template, and a dialogue by it.

#include <shardwise/llm/text/chat_template.hpp>

#include "target.hpp"

namespace fuzz {

inline Target chat_template() {
  const std::vector<std::string> seeds{
      "{% for m in messages %}{{'<|' + m['role'] + '|>\\n' + m.content | trim + eos_token}}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}",
      "{%- set all = messages -%}{% for m in all %}\n  {#- note #}{% if loop.first and not m.role == "
      "\"user\" %}"
      "{% set x = bos_token + m.content.strip() %}{{ x }}{% elif loop.index0 == 0 or loop.last != '' %}a"
      "{%- else -%} b {% endif %}{% endfor %}",
      "{% macro f(a, b='-') %}{{ a ~ b }}{% if a %}{{ f(a[1:]) }}{% endif %}{% endmacro %}{% set all = [] %}"
      "{% for m in messages | rejectattr('role', 'in', ['tool']) %}{% set all = all + [m, loop.previtem] %}"
      "{{ f(m.get('content', 'x') | replace('H', '')) }}{{ m.keys() | join(', ') }}{% endfor %}",
      "{% for m in messages %}{% if 1 <= loop.index / 2.5 < 2 %}{% continue %}{% endif %}{% set x %}{{ m | "
      "dictsort "
      "| map('first') | join }}{% endset %}{{ {'a': [x], 'b': ('c', -1)} | tojson(indent=2, separators=(',', "
      "':')) "
      "}}{{ x | title | d('e') * 2 }}{% else %}{{ range(3) | sort(reverse=true) | last is divisibleby 2 }}{% "
      "endfor %}",
      "{% for m in [] %}a{% else %}{{ '' }}{% endfor %}{% for c in messages[:0] + messages[:1] %}{{ "
      "c.content[1:1] }}"
      "{{ c.content[-1:] | trim }}{% endfor %}{{ ''.strip() ~ ''.split('') | join('') }}{{ [] | join }}{{ "
      "messages[-1].x }}",
  };
  return {"chat_template", seeds, [](std::string_view input) {
            const auto messages = shardwise::parse_json(
                R"([{"role": "user", "content": " Hi "}, {"role": "assistant", "content": "Ho"}])",
                "messages");
            taken("chat", [&] {
              const shardwise::llm::ChatTemplate chat(input, "<s>", "</s>", "chat");
              for (const bool prompt : {false, true}) chat.render(messages, prompt);
            });
          }};
}

}  // namespace fuzz

// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Ranks compare the settings that must be equal, before a rank that differs makes the others wait for ever.
///
/// ```
/// sw::require_same(sw::world(), argc, argv);   // "programs differ: rank 1: --seed 2, rank 0: --seed 1"
/// sw::require_same(sw::world(), {{"layers", std::to_string(layers)}, {"text", path}}, "settings differ");
/// ```

#include <shardwise/base/bodies.hpp>
#include <shardwise/base/hash.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/version.hpp>

namespace shardwise {

/// A name and a value. One of them may be empty.
struct NamedText {
  std::string name, value;
  friend bool operator==(const NamedText&, const NamedText&) = default;
};

/// Throws `std::invalid_argument`, the same on all ranks, unless all have the same texts in the same order: it names
/// the first rank that differs from rank 0, and the difference: "WHAT: rank 1: --seed 2, rank 0: --seed 1", "WHAT: rank
/// 2: no --save, rank 0: --save runs/7". Collective: if nothing differs, it costs one all-reduce of 16 bytes.
void require_same(const Communicator& ranks, std::span<const NamedText> mine, std::string_view what);
inline void require_same(const Communicator& ranks, std::initializer_list<NamedText> mine,
                         std::string_view what) {
  require_same(ranks, std::span(mine.begin(), mine.size()), what);
}

namespace detail {

/// The same for alternating names and values: {"shape", shape, "seed", seed}.
void require_same_named(const Communicator& ranks, std::string_view what,
                        std::initializer_list<TextPart> named);

/// The same if the ranks of the mesh compare their calls; otherwise nothing is sent.
constexpr void check_same_on(const auto& mesh, const char* what, const auto&... named) {
  if (!mesh.dry() && mesh.communicator().checks())
    require_same_named(mesh.communicator(), what, {TextPart(named)...});
}

}  // namespace detail

/// Compares programs: their names, the library version that they were compiled with, and their arguments. The value of
/// an argument is the text after its "=", or all arguments up to the next one that begins with "--". The order of
/// arguments that begin with "--" matters only if one is repeated. Call it first in a program: a rank that reads its
/// arguments earlier may refuse them alone.
void require_same(const Communicator& ranks, int argc, const char* const* argv);

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {
namespace detail {

/// The text of a list at `i`, the first place where `other` differs: "--seed 2", or "no --seed".
SHARDWISE_INLINE std::string said(std::span<const NamedText> list, std::span<const NamedText> other,
                                  std::size_t i) {
  const auto text_of = [](const NamedText& each) {
    return each.name + (each.name.empty() || each.value.empty() ? "" : " ") + each.value;
  };
  const auto lacks = [](std::span<const NamedText> some, const NamedText& it) {
    return std::ranges::find(some, it.name, &NamedText::name) == some.end();
  };
  const bool own = i < list.size(), others = i < other.size();
  if (own && (!others || list[i].name == other[i].name || lacks(other, list[i]))) return text_of(list[i]);
  return "no " + (other[i].name.empty() ? other[i].value : other[i].name);
}

/// The text of one rank: each name and each value ends with a zero byte.
SHARDWISE_INLINE std::vector<NamedText> named_texts(std::string_view text) {
  std::vector<NamedText> list;
  while (!text.empty()) {
    const std::string name(take_part(text, '\0'));
    list.push_back({name, std::string(take_part(text, '\0'))});
  }
  return list;
}

SHARDWISE_INLINE void require_same_named(const Communicator& ranks, std::string_view what,
                                         std::initializer_list<TextPart> named) {
  std::vector<NamedText> mine;
  for (const auto* part = named.begin(); part != named.end(); part += 2) {
    mine.push_back({text({part[0]}), text({part[1]})});
  }
  require_same(ranks, mine, what);
}

}  // namespace detail

SHARDWISE_INLINE void require_same(const Communicator& ranks, std::span<const NamedText> mine,
                                   std::string_view what) {
  if (ranks.size() == 1) return;
  std::string text(what);  // first, because ranks may be in different comparisons
  text.append(2, '\0');
  for (const NamedText& each : mine) {
    for (const std::string* part : {&each.name, &each.value}) text.append(*part, 0, part->find('\0')) += '\0';
  }
  detail::Fnv1a hash;
  hash.add(text);
  if (ranks.have_same(hash.value)) return;

  const std::vector<std::string> texts = ranks.all_gather(text);
  const auto unlike = std::ranges::adjacent_find(texts, std::ranges::not_equal_to()) + 1;
  const auto list = detail::named_texts(*unlike), expected = detail::named_texts(texts[0]);
  const auto i = static_cast<std::size_t>(std::ranges::mismatch(list, expected).in1 - list.begin());
  detail::fail({expected.front().name, ": rank ", unlike - texts.begin(), ": ",
                detail::said(list, expected, i), ", rank 0: ", detail::said(expected, list, i)});
}

SHARDWISE_INLINE void require_same(const Communicator& ranks, int argc, const char* const* argv) {
  const std::string_view path = argc > 0 ? argv[0] : "";
  std::vector<NamedText> mine{{"program", std::string(path.substr(path.rfind('/') + 1))},
                              {"version", SHARDWISE_VERSION}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--")) {
      const std::size_t end = std::min(argument.find('='), argument.size());
      mine.push_back({std::string(argument.substr(0, end)),
                      std::string(argument.substr(end).substr(end < argument.size()))});
    } else if (i == 1) {
      mine.push_back({std::string(argument), {}});
    } else {
      std::string& value = mine.back().value;
      (value += value.empty() ? "" : " ") += argument;
    }
  }
  std::ranges::stable_sort(mine.begin() + 2, mine.end(), {}, [](const NamedText& each) {
    return each.name.starts_with("--") ? std::string_view(each.name) : std::string_view();
  });
  require_same(ranks, mine, "programs differ");
}

}  // namespace shardwise
#endif

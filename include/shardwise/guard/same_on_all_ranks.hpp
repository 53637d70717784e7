// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What all ranks must have alike is compared, before one that differs makes the others wait for ever.
///
/// ```
/// sw::require_same(sw::world(), argc, argv);   // "programs differ: rank 1: --seed 2, rank 0: --seed 1"
/// sw::require_same(sw::world(), {{"layers", std::to_string(layers)}, {"text", path}}, "settings differ");
/// ```

#include <shardwise/base/bodies.hpp>
#include <shardwise/base/hash.hpp>
#include <shardwise/comm/gather.hpp>
#include <shardwise/version.hpp>

namespace shardwise {

/// Of a thing its name, and what it is; one of them may be empty.
struct NamedText {
  std::string name, value;
  friend bool operator==(const NamedText&, const NamedText&) = default;
};

namespace detail {

/// What a list has at `i`, where `other` is the first to have something else: "--seed 2", or "no --seed".
std::string said(std::span<const NamedText> list, std::span<const NamedText> other, std::size_t i);

/// The text of one rank begins at `text`: each name and each value ends with a zero byte.
std::vector<NamedText> named_texts(std::string_view text);

/// Throws: rank `r` is the first that has something else than rank 0, whose first text says what is compared.
[[noreturn, gnu::cold]] void fail_unlike(int r, const std::string& text, const std::string& first);

}  // namespace detail

/// Throws `std::invalid_argument`, the same on all ranks, unless all have the same texts in the same order: it names the
/// first rank that differs from rank 0, and in what: "WHAT: rank 1: --seed 2, rank 0: --seed 1", "WHAT: rank 2: no --save,
/// rank 0: --save runs/7". Collective: where nothing differs, one all-reduce of 16 bytes.
void require_same(const Communicator& ranks, std::span<const NamedText> mine, std::string_view what);
inline void require_same(const Communicator& ranks, std::initializer_list<NamedText> mine,
                         std::string_view what) {
  require_same(ranks, std::span(mine.begin(), mine.size()), what);
}

namespace detail {

/// The same of a number, if collectives are compared; else nothing is sent.
template <class Number>
void check_same(const Communicator& ranks, const char* name, Number number, std::string_view what) {
  if (ranks.checks()) require_same(ranks, {{name, text({number})}}, what);
}

}  // namespace detail

/// The same of programs: their names, the library's version that they were compiled with, and their arguments, each with
/// what follows it up to the next that begins with "--", or with what follows its "=". The order of those that begin with "--"
/// does not matter, but where one is repeated. Let it be the first that a program does: before it reads its arguments, which
/// one rank alone may refuse.
void require_same(const Communicator& ranks, int argc, const char* const* argv);

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {
namespace detail {

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

SHARDWISE_INLINE std::vector<NamedText> named_texts(std::string_view text) {
  std::vector<NamedText> list;
  while (!text.empty()) {
    const std::string name(take_part(text, '\0'));
    list.push_back({name, std::string(take_part(text, '\0'))});
  }
  return list;
}

SHARDWISE_INLINE void fail_unlike(int r, const std::string& text, const std::string& first) {
  const auto list = named_texts(text), expected = named_texts(first);
  const auto i = static_cast<std::size_t>(std::ranges::mismatch(list, expected).in1 - list.begin());
  fail({expected.front().name, ": rank ", r, ": ", said(list, expected, i),
        ", rank 0: ", said(expected, list, i)});
}

}  // namespace detail
}  // namespace shardwise

namespace shardwise {

SHARDWISE_INLINE void require_same(const Communicator& ranks, std::span<const NamedText> mine,
                                   std::string_view what) {
  if (ranks.size() == 1) return;
  std::string text(what);  // first of all: ranks may compare different things
  text.append(2, '\0');
  for (const NamedText& each : mine) {
    for (const std::string* part : {&each.name, &each.value}) text.append(*part, 0, part->find('\0')) += '\0';
  }
  detail::Fnv1a hash;
  hash.add(text);
  const auto number = std::bit_cast<Index>(hash.value);
  const Index own[]{number, ~number};  // the least of these is the complement of the greatest
  Index least[2]{};
  ranks.all_reduce(own, least, 2, DataType::i64, ReduceOp::min);
  if (least[0] == ~least[1]) return;

  const std::vector<std::string> texts = detail::gather_each(ranks, text);
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (texts[r] != texts[0]) detail::fail_unlike(static_cast<int>(r), texts[r], texts[0]);
  }
}

SHARDWISE_INLINE void require_same(const Communicator& ranks, int argc, const char* const* argv) {
  const std::string_view path = argc > 0 ? argv[0] : "";
  std::vector<NamedText> mine{{"program", std::string(path.substr(path.rfind('/') + 1))},
                              {"version", detail::text({SHARDWISE_VERSION_MAJOR, ".", SHARDWISE_VERSION_MINOR,
                                                        ".", SHARDWISE_VERSION_PATCH})}};
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

// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SVG pictures of boxes and text, for light and dark pages.

#include <cmath>

#include <shardwise/base/text.hpp>

namespace shardwise::detail {

/// A number in an SVG: at most two digits after the point.
inline std::string svg_number(double value) {
  char text[32];
  const double hundredths = static_cast<double>(std::llround(value * 100));
  return {text, std::to_chars(text, std::end(text), hundredths / 100, std::chars_format::fixed).ptr};
}

/// Coordinates are in pixels. Text inside `<g>` is centred on its box.
class Svg {
 public:
  void add(std::initializer_list<TextPart> parts) { body_ += text(parts); }
  void box(std::string_view kind, double x, double y, double width, double height) {
    add({"<rect class=\"", kind, "\" x=\"", svg_number(x), "\" y=\"", svg_number(y), "\" width=\"",
         svg_number(width), "\" height=\"", svg_number(height), "\"/>"});
  }
  void words(double x, double y, std::string_view words) {
    add({"<text x=\"", svg_number(x), "\" y=\"", svg_number(y), "\">", escaped(words), "</text>\n"});
  }
  bool has(std::string_view kind) const {
    return body_.find(text({"class=\"", kind, "\""})) != std::string::npos;
  }
  /// Adds a box and its name to the legend if the picture uses this kind; returns the x of the next entry, `width`
  /// further right.
  double legend(std::string_view kind, double x, double y, std::string_view name, double width) {
    if (!has(kind)) return x;
    box(kind, x, y, 12, 12);
    words(x + 16, y + 10, name);
    return x + width;
  }

  std::string page(double right, double bottom, std::string_view title, std::string_view more_style = {}) {
    const std::string size[] = {svg_number(right), svg_number(bottom)};
    return text({"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 -1 ", size[0], " ", size[1],
                 "\" width=\"", size[0], "\" height=\"", size[1], "\">\n<style>", style, more_style,
                 "</style>\n<title>", escaped(title), "</title>\n", body_, "</svg>\n"});
  }

 private:
  static std::string escaped(std::string_view words) {
    std::string all;
    for (const char& letter : words) {
      all += letter == '<' ? "&lt;" : letter == '&' ? "&amp;" : std::string(1, letter);
    }
    return all;
  }

  static constexpr const char* style =
      "text{font:12px sans-serif;fill:#24292f}g text{fill:#111;text-anchor:middle}g rect{stroke:#fff}"
      ".idle{fill:#dde1e6}.F{fill:#a8d0ff}.F.odd{fill:#5fa5f0}.B{fill:#9be09a}.B.odd{fill:#55b554}"
      ".I{fill:#8fe0d2}.I.odd{fill:#45b8a5}.W{fill:#ffcf90}.W.odd{fill:#f5a03c}"
      "@media(prefers-color-scheme:dark){text{fill:#e6edf3}g "
      "rect{stroke:#0d1117}.idle{fill:#30363d}}";

  std::string body_{};
};

}  // namespace shardwise::detail

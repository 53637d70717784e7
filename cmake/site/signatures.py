# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Declarations as a user writes them: `matrix_product<To...>(a, b, MatrixProductOptions options = {})`.

A function has the template arguments that its calls state, and its parameters; those of deduced types have no type.
Constraints, arguments that are computed from others, `constexpr`, `auto`, a parameter's `const` and names in `detail` are
left out. `…` stands for a default that is such a name.
"""

import re

MACHINERY = re.compile(r"detail::|typename |decltype|make_index_sequence")
VALUES = re.compile(r"(int|bool|std::size_t|Index|Side|SumOrder|Fault|FixedString|Packed\w+|const auto&)$")  # no types


def end_of(text, at):
    """The index after the bracket that closes the one at `at`. Between angle brackets, other signs are in parentheses."""
    opening, closing = ("<", ">") if text[at] == "<" else ("([{", ")]}")
    depth = 0
    while at < len(text):
        if opening == "<" and text[at] in "([{":
            at = end_of(text, at)
            continue
        depth += (text[at] in opening) - (text[at] in closing and text[at - 1:at + 1] != "->")
        at += 1
        if depth == 0:
            break
    return at


def pieces(text, sign):
    """The text at each `sign` that is outside of brackets."""
    out, at, begin = [], 0, 0
    while at < len(text):
        if text[at] in "([{<":
            at = end_of(text, at)
        elif text.startswith(sign, at):
            out.append(text[begin:at].strip())
            at = begin = at + len(sign)
        else:
            at += 1
    return [piece for piece in [*out, text[begin:].strip()] if piece]


def without_constraint(text):
    """Without the `requires` clause that it begins with."""
    if not text.startswith("requires"):
        return text
    text = re.sub(r"^requires\s*(requires [^{]*)?!?[\w:]*", "", text)
    while text[:1] in tuple("(<{"):
        text = text[end_of(text, 0):]
    text = text.lstrip()
    return without_constraint("requires " + text[2:].lstrip()) if text.startswith(("&&", "||")) else text


def default_of(text):
    return " = " + ("…" if "detail::" in text else text)


class TemplateParameter:
    """`class... To`, `int p`, `Side side = Side::left`, or `WellFormed Result = …`, which is computed from others."""

    def __init__(self, text):
        what, *default = pieces(text, " = ")
        self.kind, self.dots, self.name = re.fullmatch(r"(.*?)(\.\.\.|) ?(\w*)", what).groups()
        if not self.kind:  # it has no name
            self.kind, self.name = self.name, ""
        self.is_value = VALUES.match(self.kind)
        self.default = default[0] if default else ""
        self.computed = not self.is_value and "<" in self.default

    def shown(self):
        name = "%s %s" % (self.kind, self.name) if self.is_value else self.name
        return name + self.dots + (default_of(self.default) if self.default else "")


def parameter(text, deduced):
    """A parameter of a function. `deduced`: the template's parameters."""
    what, *default = pieces(text, " = ")
    kind, name, extents = re.fullmatch(r"(.*?)(?:(?<=[\s&*.])(?!const\b)(\w+))?((?:\[\w*\])*)", what).groups()
    kind, dots = re.fullmatch(r"(.*?)(\.\.\.|)", kind.strip()).groups()
    kind = re.sub(r"\btypename " if "*" in kind else r"^const |\btypename ", "", kind)
    plain = kind.rstrip("&").strip()
    if plain in deduced or re.search(r"\bauto$|^\w+::MeshOf$|^Eigen::\w+Base<|detail::", plain):
        kind, name = "", name or (plain if plain in deduced else "x").lower()
    elif not kind.endswith("&") or what.startswith("const ") or kind.endswith("&&"):
        kind = plain
    return " ".join(filter(None, (kind, (name or "") + dots))) + extents + (default_of(default[0]) if default else "")


def in_lines(before, opening, arguments, closing):
    """In lines of at most 96 characters."""
    lines = [before + opening]
    for i, argument in enumerate(arguments):
        argument += ", " if i + 1 < len(arguments) else ""
        if len(lines[-1] + argument) > 96:
            lines.append("    ")
        lines[-1] += argument
    return "\n".join(line.rstrip() for line in lines) + closing


def function(name, text, parameters):
    at = re.search(r"(?<![\w:])%s\s*\(" % re.escape(name), text)
    given = pieces(text[at.end():end_of(text, at.end() - 1) - 1], ",")
    kinds = " ".join(pieces(each, " = ")[0] for each in given)
    deduced = {each.name for each in parameters if each.name and re.search(r"\b%s\b" % each.name, kinds)}
    stated = ", ".join(each.shown() for each in parameters if each.name and not each.computed and each.name not in deduced)
    result = re.sub(r"\b(constexpr|inline|explicit|friend|virtual|const auto&|auto&?) *", "", text[:at.start()]).strip()
    if MACHINERY.search(result) or {each.name for each in parameters if each.computed} & set(re.findall(r"\w+", result)):
        result = "static" if "static" in result else ""
    return in_lines(" ".join(filter(None, (result, name))) + ("<%s>" % stated if stated else ""), "(",
                    [parameter(each, deduced) for each in given if not re.search(r"detail::\S+ = ", each)], ")")


def shown(kind, name, text, calls):
    """`calls`: those in the comment of a function object."""
    raw, flat, parameters = text.rstrip("; \n"), " ".join(text.split()).rstrip("; "), []
    if calls:
        return "\n".join(calls)
    while flat.startswith("template <"):
        end = end_of(flat, flat.index("<"))
        parameters += map(TemplateParameter, pieces(flat[flat.index("<") + 1:end - 1], ","))
        flat = without_constraint(flat[end:].lstrip())
    of = "<%s>" % ", ".join(each.shown() for each in parameters if each.name) if parameters else ""
    if kind == "function":
        return function(name, flat, parameters)
    if kind == "class":
        head, *bases = pieces(flat.replace("::", "\0"), ":")
        bases = [base for base in pieces("".join(bases).replace("\0", "::"), ",") if "detail::" not in base]
        bases = [re.sub(r"\b(Module|Pooled)<.*%s.*>$" % re.escape(name), r"\1", base) for base in bases]
        stated = [each.shown() for each in parameters if each.name]
        return in_lines(head.split()[0] + " " + name, "<" if stated else "", stated, ">" if stated else "") + (
            " : " + ", ".join(bases) if bases else "")
    if kind == "typedef" and (of or MACHINERY.search(raw)):
        value = raw[raw.index("=", raw.index("using")):]
        return "using " + name + of + ("" if MACHINERY.search(value) else " " + value)
    if kind == "concept" and MACHINERY.search(raw):
        return "concept " + name + of
    if kind == "variable" and (of or MACHINERY.search(raw) or "= [" in raw):
        what, *value = pieces(flat, "=")
        what = re.sub(r"\binline |\{.*", "", what).strip()
        what = name if "detail::" in what else what
        value = "" if MACHINERY.search(raw) or not value or value[0][0] == "[" or value == ["false"] else " = " + value[0]
        return re.sub(r"\b%s$" % re.escape(name), name + of, what) + value
    return re.sub(r"^inline ", "", raw)

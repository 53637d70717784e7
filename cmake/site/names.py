# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""The public names of the headers as pages of Markdown, one page per header, from Doxygen's XML.

A comment stands for all declarations up to the next blank line or comment. The reference leaves out `detail`,
specializations, deduction guides, destructors, functions that copy, and functions that are deleted or have no result
(`IllFormed`). Of declarations without a comment, it leaves out operators, what is defaulted, structs of operations
(`…Op`), members of these and of optimizers' updates (`…Update`), and functions that the library calls (PROTOCOL).
All other names need a comment, except names that the paragraph of their header describes, structs whose fields have
comments, and fields and types of a class. `undocumented` lists what lacks one.
"""

import re
import xml.etree.ElementTree as ET

import signatures

# learn/adding-an-operation.md and learn/own-models.md describe these members once, for all types that have them.
PROTOCOL = set("""forward signature saved pull_back backward suits visit scratch flops gradient_flops apply state_blocks
style_for weight bias""".split())

MACROS = {  # of headers, and the declarations that they make
    "FUNCTION": "constexpr auto name(operands)",
    "COMPARISON": "template <Operand A, class B>\nconstexpr auto name(const A& a, const B& b)",
    "REDUCTION": "template <int Dim = detail::all_dimensions, Operand X>\nconstexpr auto name(const X& x)",
    "MEAN_LOSS": "template <Operand X, Operand Target>\nconstexpr auto name(const X& x, const Target& target)",
    "OPERATOR": "", "NO_OPERATOR": "", "COMPILE_MEMBER": "", "COMPILE_EACH": "", "COMPILE": "", "ONCE": "",
}


OPERANDS = {  # of the operations of FUNCTION
    "ActivationOp": "x", "CatSharedOp": "x, shared", "ExpertsOp": "x, ids, weights, gate_up, down", "TakeAlongDimOp": "x, ids",
    **dict.fromkeys(("AddOp", "SubOp", "MulOp", "DivOp", "MinimumOp", "MaximumOp", "MatmulOp"), "a, b"),
    **dict.fromkeys(("SwigluOp", "GegluOp"), "gate, up"),
}


def code(line):
    """A line without its comment, and without characters that look like brackets."""
    line = re.sub(r"'[(){}\[\];:]'", "' '", line)
    return re.sub(r"(?<!:)//.*$", "", line).rstrip()


def flat(node):
    return " ".join("".join(node.itertext()).split()) if node is not None else ""


def plain(text):
    """Text in which Markdown finds no marks."""
    return re.sub(r"([\\`*_\[\]>#])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;"))


def before_code(para):
    """The texts of a paragraph before its first block of code."""
    yield para.text or ""
    for child in para:
        if child.tag == "programlisting":
            return
        yield "".join(child.itertext()) + (child.tail or "")


class Name:
    """A declaration. `text` is as the header has it, without a body; it has the lines [begin, end] there."""

    def __init__(self, node, kind, source):
        place = node.find("location")
        self.kind, self.source, self.id, self.members = kind, source, node.get("id"), []
        self.name = (node.findtext("compoundname") or node.findtext("name")).split("<")[0].strip().split("::")[-1]
        # A function's declaration, or itself: Doxygen takes a deleted overload below it for its declaration.
        self.line = min(int(place.get(line)) for line in ("declline", "line") if place.get(line)) - 1
        self.parts = [node.find("briefdescription"), node.find("detaileddescription")]
        if kind == "function":
            self.name = node.findtext("name")
        self.documented = any(map(flat, self.parts))
        before = r"\b(class|struct) +(\[\[\w+\]\] )?" if kind == "class" else r"\b"
        self.specialized = kind in ("class", "variable") and re.search(
            "%s%s<" % (before, re.escape(self.name)), code(source[self.line]).split("=")[0])
        self.read()

    def read(self):
        lines, text, depth = self.source, "", 0
        self.begin = self.line
        while self.begin > 0 and re.search(r"[^\s;{}:]\s*$|::$", code(lines[self.begin - 1])) and not re.match(
                r"\s*(#|SHARDWISE_\w+\()", lines[self.begin - 1]):
            self.begin -= 1
        whole = self.kind in ("variable", "typedef", "enum", "concept")
        for row in range(self.begin, min(self.begin + 60, len(lines))):
            line, stop = code(lines[row]), None
            for at, c in enumerate(line):
                depth += (c in "([{") - (c in ")]}")
                if depth == 0 and c == ";":
                    stop = at + 1
                elif not whole and row >= self.line and c == "{" and depth == 1:
                    stop = at
                elif self.kind == "function" and row >= self.line and depth == 0 and line[at - 1:at + 2] == " : ":
                    stop = at
                if stop is not None:
                    break
            text += line[:stop] + "\n"
            if stop is not None:
                break
        self.end, depth = row, 0
        if not whole and not text.rstrip().endswith(";"):  # the end of the body
            for self.end in range(row, len(lines)):
                depth += code(lines[self.end]).count("{") - code(lines[self.end]).count("}")
                if depth <= 0 and re.search(r"[;}]$", code(lines[self.end])):
                    break
        indent = re.match(r"\s*", lines[self.begin])[0]
        self.text = "\n".join(line.removeprefix(indent) for line in text.rstrip().split("\n"))
        self.text = re.sub(r"SHARDWISE_INLINE |\[\[[\w:, ]+\]\] ", "", self.text)
        if macro := re.match(r"SHARDWISE_(\w+)\((\w+), *(\w+)", self.text):
            self.text = re.sub(r"\bname\b", macro[2], MACROS[macro[1]])
            self.text = self.text.replace("operands", OPERANDS.get(macro[3], "operands"))

    def shown(self):
        """As a user writes it. A function object has its calls in its comment."""
        texts = ["".join(code.itertext()) for part in self.parts if part is not None for code in part.iter("computeroutput")]
        calls = [text for text in texts if re.match(r"%s(<.*>)?\(" % re.escape(self.name), text)]
        return signatures.shown(self.kind, self.name, self.text, calls if re.match(
            r"(template <.*>\s*)?inline constexpr detail::", self.text, re.DOTALL) else [])

    def hidden(self, owner):
        own = re.escape(owner.name if owner else self.name)
        if self.specialized or self.name.startswith("~") or re.search(r"= ?delete\b|(?<!concept )\bIllFormed\b", self.text):
            return True
        copies = r"(constexpr |explicit )*%s\((const )?%s(<.*>)?&&? ?\w*\)" % (own, own)
        if self.kind == "function" and re.match(copies, self.text):
            return True
        if not owner and re.match(r"(template <.*>\s*)?(explicit )?%s\(.*\)\s*->" % own, self.text, re.DOTALL):
            return True  # a deduction guide
        if self.documented:
            return False
        if self.kind == "function" and not owner and re.search(r"(?m)^(Why|WrittenOtherwise<.*>) |\bAbstractOperand [A-Z]", self.text):
            return True  # the error of a call, or a call on types alone
        if owner and (owner.name.endswith(("Op", "Update")) or self.kind == "function" and self.name in PROTOCOL):
            return True
        return (self.kind == "class" and self.name.endswith("Op") or self.name.startswith(("operator", "@")) or
                self.text.rstrip(";").endswith("default"))


class Reference:
    def __init__(self, xml, include):
        """`headers`: for each header its names in groups, each with one comment. `places`: of names and of ids."""
        self.xml, self.include, self.sources, self.headers = xml, include, {}, {}
        self.about, self.undocumented, self.places, self.own, self.last_title = {}, [], {}, set(), None
        compounds = [compound for path in sorted(xml.glob("*.xml")) for compound in ET.parse(path).getroot().findall("compounddef")]
        self.namespaces = {compound.findtext("compoundname") for compound in compounds if compound.get("kind") == "namespace"}
        for compound in compounds:
            self.read(compound)
        for path, names in sorted(self.headers.items()):
            self.headers[path] = self.groups(names, None, path)
            for name in (name for group in self.headers[path] for name in group):
                name.groups = self.groups(name.members, name, path)
                if name.name not in self.places or "/kernel/" in self.places[name.name][0]:
                    self.places[name.name] = path, name.name
                for member in [name, *name.members]:
                    self.places[member.id] = path, name.name
            self.places[path.removeprefix("shardwise/")] = self.places[path] = path, ""

    def read(self, compound):
        kind, full = compound.get("kind"), compound.findtext("compoundname")
        members = [member for section in compound.findall("sectiondef") for member in section.findall("memberdef")]
        if kind == "file":
            path = compound.find("location").get("file")
            self.about[path] = [compound.find("briefdescription"), compound.find("detaileddescription")]
            self.headers.setdefault(path, [])
        elif kind == "namespace":
            for member in members:
                self.add(member, member.get("kind"))
        elif kind in ("class", "struct", "concept", "union") and full.split("<")[0].rpartition("::")[0] in self.namespaces:
            name = self.add(compound, "concept" if kind == "concept" else "class")
            nested = [ET.parse(self.xml / (inner.get("refid") + ".xml")).getroot().find("compounddef")
                      for inner in compound.findall("innerclass") if inner.get("prot") == "public"]
            name.members = [Name(member, member.get("kind"), name.source) for member in members
                            if member.get("prot") == "public" and member.get("kind") != "friend"]
            name.members += [Name(inner, "class", name.source) for inner in nested]

    def add(self, node, kind):
        path = node.find("location").get("file")
        if path not in self.sources:
            self.sources[path] = (self.include / path).read_text(encoding="utf-8").split("\n")
        name = Name(node, kind, self.sources[path])
        self.headers.setdefault(path, []).append(name)
        return name

    def groups(self, names, owner, path):
        groups, last = [], None
        for name in sorted(names, key=lambda name: name.line):
            between = name.source[last.end + 1:name.begin] if last else [""]
            joined = last and all(line.strip() and not line.lstrip().startswith("//") for line in between)
            if name.hidden(owner):
                if joined:
                    last = name
                continue
            if joined and not name.documented and groups:
                groups[-1].append(name)
            else:
                groups.append([name])
                if not name.documented and not self.explained(name, owner, path):
                    own = owner.name + "::" if owner else ""
                    self.undocumented.append("include/%s:%d: %s%s" % (path, name.line + 1, own, name.name))
            last = name
        return groups

    def explained(self, name, owner, path):
        if owner and name.kind in ("variable", "typedef"):
            return True
        if name.text.startswith("struct") and any(member.documented for member in name.members):
            return True
        return bool(re.search(r"\b%s\b" % re.escape(name.name), " ".join(map(flat, self.about.get(path, [])))))

    def first(self, path):
        """The text of the first paragraph of a header."""
        for part in self.about[path]:
            if part is not None and (para := part.find("para")) is not None:
                return " ".join("".join(before_code(para)).split())
        return ""

    # ---- Markdown ----
    def page(self, path):
        """The page of a header."""
        self.own = set()
        title, stem = path.removeprefix("shardwise/"), path.split("/")[-1].removesuffix(".hpp").replace("_", "")
        main = [name.name for group in self.headers[path] for name in group
                if name.name.lower().replace("_", "") == stem]
        out = ["# %s" % ": ".join([title, *main[:1]]), "```cpp\n#include <%s>\n```" % path,
               self.words(path, self.about[path])]
        for group in self.headers[path]:
            out += self.section("##", group, path, None)
            for name in group:
                fields = [each for part in name.groups for each in part if each.kind in ("variable", "typedef") and
                          (each.documented or "detail::" not in each.text)]
                if fields:
                    out += ["```cpp\n" + "\n".join(dict.fromkeys(self.field(each) for each in fields)) + "\n```"]
                for part in name.groups:
                    part = [each for each in part if each.kind not in ("variable", "typedef")]
                    out += self.section("###", part, path, name) if part else []
        return "\n\n".join(part for part in out if part) + "\n"

    def section(self, level, group, path, owner):
        names = list(dict.fromkeys(name.name for name in group))
        mark = " { #%s }" % re.sub(r"\W", "-", names[0]) if not owner else ""
        anchors = "".join('<a id="%s"></a>' % name for name in names[1:] if not owner and re.fullmatch(r"\w+", name))
        title = "%s %s%s" % (level, ", ".join("`%s`" % name for name in names), mark)
        if self.last_title == (path, owner, title):
            title = ""  # another overload
        else:
            self.last_title = path, owner, title
        self.own = set(re.findall(r"\b[a-z]\w*\b(?!\()", " ".join(name.text for name in group)))
        texts = "```cpp\n%s\n```" % "\n".join(dict.fromkeys(name.shown() for name in group))
        return [title, anchors, texts] + [self.words(path, name.parts) for name in group if name.documented]

    def field(self, name):
        text = " ".join(filter(None, map(flat, name.parts)))
        shown = name.shown()
        if not text:
            return shown
        if len(text) + len(shown) < 90 and "\n" not in shown:
            return "%s  // %s" % (shown, text)
        lines = re.findall(r"(.{1,95})(?:\s|$)", text)
        return "\n".join("// " + line for line in lines) + "\n" + shown

    def words(self, path, parts):
        return "\n\n".join(filter(None, (self.markdown(part, path).strip() for part in parts if part is not None)))

    def markdown(self, node, path):
        inner = plain(node.text or "")
        for child in node:
            inner += self.markdown(child, path) + plain(child.tail or "")
        if node.tag == "para":
            return inner.strip() + "\n\n"
        if node.tag in ("bold", "emphasis"):
            mark = "**" if node.tag == "bold" else "*"
            return mark + inner + mark
        if node.tag == "computeroutput":
            text = "".join(node.itertext())
            ticks = "``" if "`" in text else "`"
            return self.link("%s%s%s" % (ticks, text, ticks), re.sub(r"^shardwise::|\(\)$", "", text), path)
        if node.tag == "ref":
            return self.link(inner, node.get("refid"), path)
        if node.tag == "ulink":
            return "[%s](%s)" % (inner, node.get("url"))
        if node.tag in ("programlisting", "verbatim"):
            for space in node.iter("sp"):
                space.text = " "
            lines = ["".join(line.itertext()) for line in node.findall("codeline")] or ["".join(node.itertext())]
            return "\n\n```cpp\n%s\n```\n\n" % "\n".join(lines).strip("\n")
        if node.tag == "listitem":
            return "- " + inner.strip().replace("\n\n", "\n").replace("\n", "\n    ") + "\n"
        if node.tag in ("itemizedlist", "orderedlist"):
            return "\n\n" + inner.replace("\n\n", "\n") + "\n"
        if node.tag == "row":
            head = "\n|" + "---|" * len(node) if node.find("entry").get("thead") == "yes" else ""
            return "|" + "|".join(" ".join(self.markdown(entry, path).split()) for entry in node) + "|" + head + "\n"
        if node.tag == "table":
            return "\n\n" + "".join(self.markdown(row, path) for row in node) + "\n"
        return {"ndash": "–", "mdash": "—", "nonbreakablespace": " ", "sp": " "}.get(node.tag, inner)

    def link(self, text, target, path):
        if target not in self.places or target in self.own or self.places[target] == (path, ""):
            return text
        to, anchor = self.places[target]
        up = "../" * (path.count("/") - 1)
        return "[%s](%s#%s)" % (text, "" if to == path else up + page_of(to), anchor) if anchor else (
            "[%s](%s)" % (text, up + page_of(to)))


def page_of(path):
    """`shardwise/nn/linear.hpp` → `nn/linear.md`. MkDocs takes an index.md for the page of its folder."""
    return re.sub(r"\bindex$", "index_", path.removeprefix("shardwise/").removesuffix(".hpp")) + ".md"

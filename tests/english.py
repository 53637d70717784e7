# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Plain English: `python3 english.py ROOT` lists turns that a first reader stumbles over, in the comments of headers
and of CMake files, in the texts of errors and options, and in pages; and pages whose sentences are too long.
`python3 english.py ROOT FILE…` looks at these files alone."""

import re
import sys
from pathlib import Path

MOST_WORDS, MEAN_WORDS = 45, 20

# Each with what to write in its place.
TURNS = {
    r"\b(?:for|of|by|to|from|with|as|than|if|where) who\b": "name the person: a user, a caller, a program that …",
    r"\bwho (?:links|asks|has|wants|knows|reads|never)\b": "name the person: a user, a caller, a program that …",
    r"\b(?:is|are|was|were|be) told\b(?! apart)": "who reports it: `f` reports …",
    r"(?<!there )(?<!here )\b(?:is|are|was|were) no (?!more|longer|less|one\b|other|way|need|reason|(?:slow|fast|lat|earli|larg|small|great|high|low)er\b|better|worse|fewer)[a-z]+": "is not a …",
    r"\bdear to\b": "expensive",
    r"\bthe like\b": "say which",
    r"(?<!there )\b(?:is|are) none\b|\bnone to it\b": "is not a …",
    r"\bnobody\b|\bsomebody\b|\bwhoever\b": "name the caller, the reader, the rank; or: no code, no rank",
    r"(?:^|@file |[.!?;:] )What (?!is |are |does |do |can |if |happens|follows)[^?.;:]*[.;:]":
        "a noun as the subject, not a clause with What",
    r"\bso many (?:bytes|rows|tokens|elements)\b": "say which number",
    r"\bhad better\b|\bbe it\b|\bbut for\b": "should; whether; except",
    r"\b(?:is|are|was) to be\b": "must be; will be",
    r"\bgoes on\b|\bgo on\b": "continues",
    r"\bin the place of\b": "instead of",
    r"\banew\b": "again; new",
    r"\bsome \d+ ": "about",
    r"\bas it lies\b|\bas they lie\b|\blies as\b|\blie as\b|\blies there\b": "has the layout …",
}
TURNS = {re.compile(turn, re.IGNORECASE): advice for turn, advice in TURNS.items()}


def prose_of_page(text):
    """Paragraphs and items of lists, without code, tables and headings."""
    text = re.sub(r"```.*?```", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"^[#|].*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        paragraph = " ".join(paragraph.split())
        if paragraph:
            yield paragraph


def labels_of_page(text):
    """Headings and rows of tables."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [line for line in text.split("\n") if line.startswith(("|", "#"))]


def sentences(paragraph):
    plain = re.sub(r"`[^`]*`", "code", paragraph)
    plain = re.sub(r"\]\([^)]*\)", "]", plain)
    return [s for s in re.split(r"(?<=[.!?:;])\s+", plain) if len(s.split()) > 1]


IN_CPP = re.compile(r"\s*//[/!]?<?\s?(.*)|.*?\s//[/!]?<?\s(.*)")
IN_CMAKE = re.compile(r"\s*#\s?(.*)|[^\"]*?\s#\s(.*)")


def comments(text, comment):
    """Each run of comment lines as one text. `comment` finds what follows the mark, at the start of a line or later."""
    run = []
    for line in text.split("\n") + [""]:
        found = comment.match(line)
        if found:
            run.append(found.group(1) or found.group(2) or "")
        if run and (not found or found.group(2) or not found.group(1)):
            yield " ".join(run)
            run = []


def literals(text):
    return re.findall(r'"((?:[^"\\\n]|\\.)*)"', re.sub(r'"\s*\n\s*"', "", text))


def check(root, path):
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(root)
    problems = []
    if path.suffix == ".md":
        paragraphs = list(prose_of_page(text))
        words = []
        for paragraph in paragraphs:
            for sentence in sentences(paragraph):
                words.append(len(sentence.split()))
                if words[-1] > MOST_WORDS:
                    problems.append(f"{name}: a sentence of {words[-1]} words: {sentence[:90]}…")
        if words and sum(words) / len(words) > MEAN_WORDS:
            problems.append(f"{name}: sentences of {sum(words) / len(words):.1f} words on average; at most {MEAN_WORDS}")
        paragraphs += labels_of_page(text)
    elif path.suffix in (".txt", ".cmake", ".in"):
        paragraphs = list(comments(text, IN_CMAKE))
    else:
        paragraphs = list(comments(text, IN_CPP)) + literals(text)
    for paragraph in paragraphs:
        plain = re.sub(r"`[^`]*`", "code", paragraph)
        for turn, advice in TURNS.items():
            for found in turn.finditer(plain):
                problems.append(f"{name}: “{found.group(0).strip()}” in “{paragraph[:100]}”: {advice}")
    return problems


def main():
    root = Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        paths = [Path(each).resolve() for each in sys.argv[2:]]
    else:
        paths = sorted(root.glob("include/**/*.hpp")) + sorted(root.glob("examples/**/*.?pp"))
        paths += sorted(root.glob("docs/**/*.md")) + sorted(root.glob("*.md")) + sorted(root.glob("benchmarks/*.md"))
        paths.append(root / "CMakeLists.txt")
        for folder in ("benchmarks", "cmake", "examples", "tests"):
            paths += sorted((root / folder).glob("**/CMakeLists.txt")) + sorted((root / folder).glob("**/*.cmake*"))
    problems = [problem for path in paths for problem in check(root, path)]
    print("\n".join(problems))
    print(f"{len(paths)} files, {len(problems)} problems")
    return 1 if problems else 0


sys.exit(main())

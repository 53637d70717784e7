#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Makes manual pages, completions for bash and zsh, and the reference of the command line from what programs print for
--help:

    pages.py man|bash|zsh PROGRAM FILE          writes one of these pages of a program
    pages.py reference FILE PROGRAM...          writes docs/reference/programs.md
    pages.py compare FILE PROGRAM...            fails if that file is not what `reference` writes"""

import os
import pathlib
import re
import subprocess
import sys


def help_of(program):
    launcher = ("OMPI_COMM_WORLD_", "PMI_", "PMIX_", "SLURM_PROCID")  # the program would start MPI
    environment = {name: value for name, value in os.environ.items() if not name.startswith(launcher)}
    done = subprocess.run([program, "--help"], capture_output=True, text=True, encoding="utf-8",
                          env={**environment, "COLUMNS": "100"})
    if done.returncode != 0:
        sys.exit(f"{program} --help ends with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class Option:
    def __init__(self, words, text):
        self.text = text
        self.names, self.value = [], ""
        for word in re.split(r", ?(?=-)", words):  # "-o SVG, --output SVG" or "--sp,--sequence-parallel"
            name, _, self.value = word.partition(" ")
            self.names.append(name)
        if choices := re.search(r"\{([^}]*)\}", self.value):
            self.choices = choices[1].split(",")
        else:
            listed = re.search(r": ([\w.-]+(?:, [\w.-]+)+)(?:;|$)", text) if self.value == "NAME" else None
            self.choices = listed[1].split(", ") if listed else []
        self.is_number = bool(re.match(r"\[?(N|X|SIZE)\b", self.value))


class Page:
    """The parts of a program's --help: `about`, `usage`, and `groups` of options by their titles."""

    def __init__(self, program):
        self.name, self.text = pathlib.Path(program).name, help_of(program)
        about, self.usage, self.groups, group, words = [], "", {}, None, None
        lines = self.text.split("\n")
        for number, line in enumerate(lines):
            found = re.match(r"  (-\S.*?|\w+)(?:  +(\S.*))?$", line)
            if line.lower().startswith("usage: "):
                self.usage = line[7:].partition(" ")[2]
                for more in lines[number + 1:]:  # argparse wraps it
                    if not more.startswith("   "):
                        break
                    self.usage += " " + more.strip()
            elif re.match(r"\S[^.]*:$", line) and number + 1 < len(lines) and lines[number + 1].startswith("  "):
                group = self.groups.setdefault(line[:-1].capitalize(), [])
            elif group is None:
                about.append(line)
            elif found:
                words = [found[1], found[2] or ""]
                group.append(words)
            elif line.strip():
                words[1] += " " + line.strip()
        self.usage = re.sub(r"\s+", " ", self.usage)
        usage_goes_on = re.compile(r" {7}")
        self.about = "\n".join(line for line in about if not usage_goes_on.match(line)).strip("\n")
        self.groups = {title: [Option(*each) for each in group] for title, group in self.groups.items()}
        self.options = [each for group in self.groups.values() for each in group if each.names[0].startswith("-")]
        if not self.options or not self.about:
            sys.exit(f"{program} --help has no options, or does not say what it is for")

    def version(self):
        header = pathlib.Path(__file__).parents[2] / "include/shardwise/version.hpp"
        return re.search(r'VERSION "(.*)"', header.read_text(encoding="utf-8"))[1]


def roff(text):
    """Text for troff, in which a line must not begin with a control character."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^(['.])", r"\\&\1", text)


def man(page):
    first = re.split(r"[.:](?:\s|$)", page.about)[0].replace("\n", " ")
    out = [f'.TH {page.name.upper()} 1 "" "Shardwise {page.version()}" "User Commands"', ".SH NAME",
           f"{roff(page.name)} \\- {roff(first[0].lower() + first[1:])}", ".SH SYNOPSIS",
           f"\\fB{roff(page.name)}\\fR {roff(page.usage)}", ".SH DESCRIPTION"]
    for part in page.about.split("\n\n"):
        out += [".PP"] + ([".nf", roff(part), ".fi"] if part.startswith("    ") else [roff(part)])
    out.append(".SH OPTIONS")
    for title, group in page.groups.items():
        out.append(f'.SS "{roff(title)}"')
        for option in group:
            names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names)
            out += [".TP", names + (f" \\fI{roff(option.value)}\\fR" if option.value else ""), roff(option.text)]
    return "\n".join(out) + "\n"


def bash(page):
    function = "_" + page.name.replace("-", "_")
    out = [f"# Completion of {page.name} for bash.", f"{function}() {{", "  COMPREPLY=()", "  case $3 in"]
    numbers = [name for option in page.options if option.is_number for name in option.names]
    if numbers:
        out.append(f"    {'|'.join(numbers)}) compopt +o default; return ;;")
    for option in page.options:
        if option.choices:
            words = " ".join(option.choices)
            out.append(f"    {'|'.join(option.names)}) COMPREPLY=($(compgen -W '{words}' -- \"$2\")); return ;;")
    names = " ".join(name for option in page.options for name in option.names)
    out += ["  esac", f"  [[ $2 == -* ]] && COMPREPLY=($(compgen -W '{names}' -- \"$2\"))", "}",
            f"complete -o default -F {function} {page.name}"]
    return "\n".join(out) + "\n"


def zsh(page):
    out = [f"#compdef {page.name}", "_arguments -s \\"]
    for option in page.options:
        text = re.sub(r"([\[\]:'\\])", r"\\\1", option.text).replace("\\'", "'\\''")
        action = ""
        if option.choices:
            action = f":value:({' '.join(option.choices)})"
        elif option.value:
            action = ":number:" if option.is_number else ":value:_files"
        out += [f"  '{name}[{text}]{action}' \\" for name in option.names]
    return "\n".join(out + ["  '*:file:_files'"]) + "\n"


def reference(programs):
    out = ["# The command lines of the programs", "",
           "Each program prints its part of this page for `--help`. [The programs](../learn/programs.md) describes what they are for.",
           "`cmake --build build --target programs_page` writes this page."]
    for page in map(Page, programs):
        out += ["", f"## {page.name}", "", "```text", *(line.rstrip() for line in page.text.strip("\n").split("\n")), "```"]
    return "\n".join(out) + "\n"


def main():
    kind, *words = sys.argv[1:]
    if kind in ("man", "bash", "zsh"):
        program, file = words
        pathlib.Path(file).write_text({"man": man, "bash": bash, "zsh": zsh}[kind](Page(program)), encoding="utf-8")
        return
    file, *programs = words
    text = reference(programs)
    if kind == "reference":
        pathlib.Path(file).write_text(text, encoding="utf-8")
        return
    before, now = pathlib.Path(file).read_text(encoding="utf-8").split("\n"), text.split("\n")
    for number, (line, other) in enumerate(zip(before, now), 1):
        if line != other:
            sys.exit(f"{file}:{number}: '{line}', but the program prints '{other}'; build the target programs_page")
    if len(before) != len(now):
        sys.exit(f"{file} has {len(before)} lines, but the programs print {len(now)}; build the target programs_page")


if __name__ == "__main__":
    main()

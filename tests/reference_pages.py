# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""`python3 reference_pages.py ROOT`: the tables of docs/reference/cmake.md and docs/reference/environment.md name every
option, target and variable of the project, and no other; what has a version has that of shardwise/version.hpp; and the
table of README.md is what `.ci/matrix` recorded, which `--write` puts there."""

import re
import sys
from pathlib import Path


def texts(root, folders, pattern):
    """The files of these folders, without their comments."""
    for folder in folders:
        for path in sorted((root / folder).rglob(pattern)):
            if path.is_file():
                yield re.sub(r"(?m)^\s*(#(?!include|define|if)|//).*$", "", path.read_text(encoding="utf-8"))


def found(texts, *patterns):
    return {name for text in texts for pattern in patterns for name in re.findall(pattern, text)}


def named(page, pattern):
    """What the first columns of the page's tables name."""
    rows = [line.split("|")[1] for line in page.split("\n") if line.startswith("|")]
    return {name for row in rows for name in re.findall(pattern, row)}


def differences(what, page, there):
    for name in sorted(there - page):
        yield f"{what} {name} is missing in its page"
    for name in sorted(page - there):
        yield f"{what} {name} is in the page, but not in the project"


def supported(root):
    """The table of compilers, MPI and C++ standards: how many tests of `.ci/matrix` passed with each."""
    results = (root / "docs/reference/platforms.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in results.splitlines()]
    of = {name: f"{count} tests" if result == "passed" else result for name, result, count, *_ in rows}
    columns = [(mpi, standard) for mpi in ("openmpi", "mpich") for standard in ("20", "23")]
    text = "| compiler | Open MPI 4.1, C++20 | Open MPI 4.1, C++23 | MPICH 4.0, C++20 | MPICH 4.0, C++23 |\n|---|---|---|---|---|\n"
    for compiler in sorted({name.split("_")[0] for name in of if "_" in name}, key=lambda name: (name[0] != "g", name)):
        cells = [of.get(f"{compiler}_{mpi}_{standard}", "not run") for mpi, standard in columns]
        if compiler == "clang++-14":
            cells = [cell if standard == "20" else "refused" for cell, (_, standard) in zip(cells, columns)]
        text += f"| {compiler.replace('++-', '++ ')} | {' | '.join(cells)} |\n"
    return text


def main():
    root = Path(sys.argv[1])
    readme = (root / "README.md").read_text(encoding="utf-8")
    begin = readme.index("| compiler |")
    table, expected = readme[begin : readme.index("\n\n", begin) + 1], supported(root)
    if "--write" in sys.argv:
        (root / "README.md").write_text(readme.replace(table, expected), encoding="utf-8")
        return 0
    top = [(root / "CMakeLists.txt").read_text(encoding="utf-8")]
    cmake = top + list(texts(root, ["cmake"], "*.cmake")) + list(texts(root, ["examples", "benchmarks"], "CMakeLists.txt"))
    sources = list(texts(root, ["include", "examples", "benchmarks", "tests"], "*.[ch]pp"))
    scripts = list(texts(root, ["examples", "benchmarks", "tests", ".ci"], "*.sh"))
    scripts.append((root / "examples/programs/run/shardwise-run").read_text(encoding="utf-8"))
    scripts += list(texts(root, ["examples", "benchmarks", "tests"], "*.py"))

    page = (root / "docs/reference/cmake.md").read_text(encoding="utf-8")
    options = found(cmake, r"option\((SHARDWISE_\w+)", r"set\((SHARDWISE_\w+)[^)]* CACHE ")
    targets = {"shardwise::" + name for name in found(cmake, r"shardwise_layer\((\w+)", r"add_library\(shardwise::(\w+) ALIAS")}
    problems = list(differences("option", named(page, r"`(SHARDWISE_\w+)"), options))
    problems += differences("target", named(page, r"`(shardwise::\w+)"), targets)

    page = (root / "docs/reference/environment.md").read_text(encoding="utf-8")
    variables = found(sources, r'(?:getenv|environment_says|setenv)\(\s*"(SHARDWISE_[A-Z_]+)"', r'variable = "(SHARDWISE_[A-Z_]+)"')
    variables |= found(scripts, r"\$\{?(SHARDWISE_[A-Z_]+)", r"environ\S*[\"'](SHARDWISE_[A-Z_]+)")
    problems += differences("variable", named(page, r"`(SHARDWISE_\w+)"), variables)

    version = re.search(r'VERSION "(.*)"', (root / "include/shardwise/version.hpp").read_text(encoding="utf-8")).group(1)
    number = version.removesuffix("-dev")
    minor = number.rpartition(".")[0]
    address = re.search("(?m)^address=(.*)", (root / "cmake/release.sh").read_text(encoding="utf-8")).group(1)
    for file, text in [
        ("CHANGELOG.md", "\n## [Unreleased]\n" if version.endswith("-dev") else f"\n## [{version}] - 20"),
        ("README.md", f"find_package(shardwise {minor} REQUIRED)"),
        ("README.md", f"URL {address}/shardwise-{number}.tar.gz\n"),
        ("docs/learn/installing.md", f"find_package(shardwise {minor} REQUIRED COMPONENTS"),
        ("docs/reference/cmake.md", f"find_package(shardwise {minor} REQUIRED COMPONENTS"),
        ("CITATION.cff", f"version: {version}\n"),
        ("cmake/packaging/vcpkg/vcpkg.json", f'"version-string": "{version}"'),
        ("cmake/packaging/debian/changelog", f"shardwise ({version.replace('-', '~')}-1)"),
    ]:
        if text not in (root / file).read_text(encoding="utf-8"):
            problems.append(f"{file} does not have '{text.strip()}': cmake/release.sh --set-version {version} corrects it")
    if table != expected:
        problems.append("README.md's table is not that of platforms.tsv: `python3 tests/reference_pages.py . --write` makes it")
    print("\n".join(problems))
    print(f"{len(options)} options, {len(targets)} targets, {len(variables)} variables, {len(problems)} problems")
    return 1 if problems or len(options) < 7 or len(targets) < 5 or len(variables) < 7 else 0


sys.exit(main())

# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""The documentation as a site in the folder SITE: `make.py SITE`, from the pages of the repository and the comments of
the headers. SITE-work/pages has the pages as MkDocs reads them, in the folders of the repository. A page with many
entries becomes one page per entry. Files that pages link to become pages with their text. If SITE is beside a
versions.json, the header has a menu of these versions. Exits with 77 if a tool is missing.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import names

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NAMES = "docs/reference/names/"
RENAMED = {"docs/README.md": "index.md", "README.md": "quick-start.md", "docs/reference/errors.md": "docs/reference/errors/index.md",
           "docs/reference/silent-bugs.md": "docs/reference/silent-bugs/index.md"}
PICTURES = (".svg", ".webp", ".png")
TABS = ["Learn", "Reference", "Decisions"]  # sections of docs/README.md that list pages
SPLIT = {"docs/reference/errors.md": 2, "docs/reference/silent-bugs.md": 3}  # the level of an entry's heading
LINK = re.compile(r"(\]\()([^)\s]+)(\))|((?:src|srcset)=\")([^\"]+)(\")")
DETAILS = "## Details\n\nHeaders that others include. They have no names for programs."
STOREYS = {
    "The core": "tensor mesh layout ops linalg autograd module parallel nn train replicas",
    "Foundations of the core": "base memory comm kernel",
    "Pipelines": "pipeline schedule",
    "Files": "weights checkpoint io",
    "Inspection": "inspect simulate guard record",
    "Language models": "llm/models llm/decoding llm/gguf llm/text llm/data llm",
}


def fail(text, code=1):
    print("site: " + text, file=sys.stderr)
    sys.exit(code)


def slug(title):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def pieces(text):
    """(is code, text) of a page."""
    for i, part in enumerate(re.split(r"(?ms)^([ ]*```.*?^[ ]*```[ ]*$)", text)):
        yield i % 2 == 1, part


def room_of(header):
    """`shardwise/nn/linear.hpp` → `nn`, `shardwise/llm/text/utf8.hpp` → `llm/text`, `shardwise/shardwise.hpp` → ``."""
    return re.fullmatch(r"shardwise/((?:llm/)?\w+(?=/))?.*", header)[1] or ""


def relative(to, page):
    return os.path.relpath(to, os.path.dirname(page) or ".")


class Site:
    """`texts`: pages, by their paths. `places`: the pages of the repository that their links start from. `moved`: pages
    of entries, by page and anchor. `files`: those that pages link to."""

    def __init__(self, work):
        self.work, self.pages = work, work / "pages"
        self.texts, self.places, self.moved, self.files = {}, {}, {}, set()

    def read(self):
        for path in sorted([*ROOT.glob("*.md"), ROOT / "benchmarks/log.md", *(ROOT / "docs").rglob("*.md")]):
            page = path.relative_to(ROOT).as_posix()
            self.add(page, path.read_text(encoding="utf-8"))
        for page, level in SPLIT.items():
            self.split(page, "#" * level + " ")

    def split(self, page, mark):
        """Moves each entry of a page to a page of its own, and leaves a link."""
        out, entry, title = [], None, None
        index = self.texts[RENAMED[page]]
        for is_code, part in pieces(index):
            for line in [part] if is_code else part.splitlines(keepends=True):
                if not is_code and line.startswith("#"):
                    entry = None
                    if line.startswith(mark):
                        title = line[len(mark):].strip()
                        entry = "%s/%s.md" % (page.removesuffix(".md"), slug(title))
                        self.moved[page, slug(title)] = entry
                        self.places[entry] = page
                        up = "[%s](%s)" % (re.search("(?m)^# (.*)", index)[1], os.path.basename(page))
                        self.texts[entry] = "%s ›\n\n# %s\n" % (up, title)
                        if "(#%s)" % slug(title) not in index:
                            out.append("- [%s](#%s)\n" % (title, slug(title)))
                        continue
                if entry:
                    self.texts[entry] += line
                else:
                    out.append(line)
        self.texts[RENAMED[page]] = "".join(out)

    def reference(self, xml):
        reference = names.Reference(xml, ROOT / "include")
        if reference.undocumented:
            fail("these public names have no comment:\n" + "\n".join(reference.undocumented))
        about = dict(re.findall(r"(?m)^\| `([\w/]+)/` \| (.*?) \|", self.texts["docs/architecture.md"]))
        rooms = {}
        for path in sorted(reference.headers):
            rooms.setdefault(room_of(path), []).append(path)
        listed = " ".join(STOREYS.values()).split()
        if sorted(listed) != sorted(filter(None, rooms)) or set(about) != set(listed):
            fail("STOREYS in cmake/site/make.py and docs/architecture.md must name the rooms of include/shardwise: " +
                 " ".join(sorted(filter(None, rooms))))
        start = ["# Names\n\nThe public names, by the folders of `include/shardwise/`, as "
                 "[architecture](../../architecture.md) describes them. The search finds all of them.\n\n"
                 "Functions are shown as calls write them: `matrix_product<To...>(a, b, MatrixProductOptions options = {})`. "
                 "A parameter without a type has any type that its description allows. The headers have the declarations, "
                 "with constraints, `const` and `constexpr`."]
        every = {path: sorted({name.name for group in groups for name in group if re.fullmatch(r"\w+", name.name)})
                 for path, groups in reference.headers.items()}
        for storey, inside in STOREYS.items():
            start.append("\n## %s\n\n| folder | contents |\n|---|---|" % storey)
            for room in inside.split():
                start.append("| [%s](%s/README.md) | %s |" % (room, room, about[room]))
                lines = ["[Names](%s) ›\n\n# %s\n\n%s." % (relative("README.md", room + "/README.md"), room,
                                                        about[room][0].upper() + about[room][1:])]
                rooms[room].sort(key=lambda path: not every[path])
                public = [path for path in rooms[room] if every[path]]
                for title, paths in ("", public), (DETAILS, rooms[room][len(public):]):
                    if paths:
                        lines.append("\n%s\n\n| header | describes | names |\n|---|---|---|" % title)
                    for path in paths:
                        to = relative(names.page_of(path), room + "/README.md")
                        cells = ", ".join("[`%s`](%s#%s)" % (name, to, name) for name in every[path])
                        brief = re.match(r"(.*?\.)( |$)|.*", reference.first(path))
                        brief = names.plain((brief[1] or brief[0]).removesuffix(":"))
                        lines.append("| [%s](%s) | %s | %s |" % (path.removeprefix("shardwise/%s/" % room), to, brief, cells))
                self.add(NAMES + room + "/README.md", "\n".join(lines) + "\n")
        for path in reference.headers:
            room = room_of(path)
            up = "[Names](%s) ›" % relative("README.md", names.page_of(path))
            if room:
                up += " [%s](%s) ›" % (room, relative(room + "/README.md", names.page_of(path)))
            self.add(NAMES + names.page_of(path), up + "\n\n" + reference.page(path))
        headers = {name: path for path in reversed(every) for name in every[path]}
        for page, text in self.texts.items():
            unknown = set(re.findall(r"\bsw::(?:llm::)?(\w+)", text)) - {"llm", "kernel", "detail"} - set(headers)
            if unknown and page.startswith(("docs/learn/", "index.md", "quick-start.md")):
                fail("%s: these names of shardwise are not public: %s" % (page, " ".join(sorted(unknown))))
        start.append("\n## A–Z\n\n" + " · ".join(
            "[`%s`](%s#%s)" % (name, names.page_of(headers[name]), name) for name in sorted(headers, key=str.lower)))
        self.add(NAMES + "README.md", "\n".join(start) + "\n")
        self.names = [NAMES + "README.md"] + [{storey: [{room: [NAMES + room + "/README.md"] + [
            {os.path.basename(path): NAMES + names.page_of(path)} for path in rooms[room]]} for room in inside.split()]}
            for storey, inside in STOREYS.items()] + [{path: NAMES + names.page_of(path)} for path in rooms[""]]
        print("site: %d names in %d headers" % (len(headers), len(every)))

    def add(self, place, text):
        page = RENAMED.get(place, place)
        self.texts[page], self.places[page] = text, place

    # ---- Links ----
    def target(self, link, page):
        """The link of a page, as from where the page is on the site."""
        if re.match(r"[a-z]+:", link):
            return link
        file, _, anchor = link.partition("#")
        place = self.places[page]
        to = os.path.normpath(os.path.join(os.path.dirname(place), file)) if file else place
        if (to, anchor) in self.moved:
            to, anchor = self.moved[to, anchor], ""
        elif not file and place != page:  # within an entry, or from it to its index
            to = page if anchor in map(slug, re.findall(r"(?m)^#+ (.*)", self.texts[page])) else place
        if to == "docs/decisions":
            to, anchor = "docs/README.md", "decisions"
        if re.match(r"include/shardwise/.*\.hpp$", to):
            to = NAMES + names.page_of(to.removeprefix("include/"))
        to = RENAMED.get(to, to)
        if to not in self.texts:
            if not (ROOT / to).is_file():
                fail("%s: %s leads nowhere" % (page, link))
            self.files.add(to)
            if not to.endswith(PICTURES):
                to += ".md"
        path = "" if to == page else relative(to, page)
        return path + ("#" + anchor if anchor else "")

    def linked(self, text, page):
        def replaced(match):
            begin, link, end = match.groups()[:3] if match[1] else match.groups()[3:]
            return begin + self.target(link, page) + end
        parts = re.split(r"(`[^`\n]*`)", text)  # links in code are none, but code may be a link's text
        whole = "".join("\0%d\0" % i if i % 2 else part for i, part in enumerate(parts))
        whole = LINK.sub(replaced, whole)
        return re.sub(r"\0(\d+)\0", lambda match: parts[int(match[1])], whole)

    # ---- What GitHub reads otherwise than MkDocs ----
    def adapted(self, text):
        text = re.sub(r'<picture><source [^>]*srcset="([^"]*)">\s*<img alt="([^"]*)" src="([^"]*)"[^>]*></picture>',
                      r"![\2](\3#only-light)![\2](\1#only-dark)", text)
        out, before = [], ""
        for line in text.split("\n"):
            item, was_item = re.match(r"(\s*)([-*]|\d+\.) ", line), re.match(r"\s*([-*]|\d+\.) ", before)
            inside = before.startswith(" ") or was_item
            if before.strip() and (item and not inside or line.startswith("|") and not before.startswith("|")):
                out.append("")
            if item and 0 < len(item[1]) < 4:
                line = "    " + line.lstrip()
            out.append(line)
            before = line
        return "\n".join(out)

    def write(self):
        texts = {}
        for page, text in self.texts.items():
            texts[page] = "".join(re.sub(r"^```(?=\n(.*\n)*.{200})", "``` { .text .wrap }", part) if is_code
                                  else self.linked(self.adapted(part), page) for is_code, part in pieces(text))
        for file in self.files:
            if file.endswith(PICTURES):
                (self.pages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / file, self.pages / file)
            else:
                kind = {".cpp": "cpp", ".sh": "sh", ".cff": "yaml"}.get(os.path.splitext(file)[1], "text")
                text = (ROOT / file).read_text(encoding="utf-8").strip()
                texts[file + ".md"] = "# %s\n\n````%s\n%s\n````\n" % (file, kind, text)
        for page, text in texts.items():
            (self.pages / page).parent.mkdir(parents=True, exist_ok=True)
            if not text.startswith(("#", "<!--")):  # MkDocs takes only the first line of a page for its title
                title = re.search("(?m)^# (.*)", text)[1].replace("`", "")
                text = "---\ntitle: %s\n---\n%s" % (json.dumps(title), text)
            (self.pages / page).write_text(text, encoding="utf-8")
        for file in ("site.css", "site.js"):
            shutil.copy(HERE / file, self.pages)

    # ---- The navigation is that of docs/README.md ----
    def navigation(self):
        nav, seen = [{"Home": "index.md"}], set()
        for section in re.split(r"(?m)^## ", self.texts["index.md"])[1:]:
            title, entries, group = section.split("\n", 1)[0], [], None
            if title not in TABS:
                continue
            group = entries
            for line in section.split("\n")[1:]:
                if heading := re.fullmatch(r"\*\*(.*)\*\*", line):
                    group = []
                    entries.append({heading[1]: group})
                if line.startswith(("|", "- ")):
                    for text, link in re.findall(r"\[([^]]*)\]\(([^)#:]*\.md)\)", line.split(" | ")[0]):
                        page = os.path.normpath("docs/" + link)
                        page = RENAMED.get(page, page)
                        heading = re.search("(?m)^# (.*)", self.texts[page])[1]
                        inside = [{re.search("(?m)^# (.*)", self.texts[entry])[1].replace("_", " "): entry}
                                  for entry in self.places if RENAMED.get(self.places[entry]) == page != entry]
                        group.append({(heading if text[0].islower() else text).replace("`", ""):
                                      [page, *inside] if inside else page})
                        seen.add(page)
            nav.append({title: entries})
        nav.insert(2, {"Names": self.names})
        project = ["docs/policy.md", "CHANGELOG.md", "docs/architecture.md", "CONTRIBUTING.md", "SECURITY.md",
                   "CODE_OF_CONDUCT.md", "docs/releasing.md"]
        shown = [file + ".md" for file in sorted(self.files) if not file.endswith(PICTURES)]
        project += [file for file in shown if not file.startswith("examples/")]
        nav[1]["Learn"].append({"Examples": [{os.path.basename(file)[:-3]: file} for file in shown
                                              if file.startswith("examples/")]})
        nav.append({"Project": project})
        left = [page for page in self.texts if page.startswith("docs/") and not page.startswith(NAMES)
                and self.places[page] == page and page not in seen and page not in project]
        if left:
            fail("docs/README.md does not list " + ", ".join(left))
        return nav

    def make(self, site):
        config = (HERE / "mkdocs.yml").read_text(encoding="utf-8")
        version = re.search('VERSION "(.*)"', (ROOT / "include/shardwise/version.hpp").read_text(encoding="utf-8"))[1]
        menu = {"version": {"provider": "mike"}} if site.with_name("versions.json").exists() else {}
        for key, value in {"site_name": "Shardwise " + version, "docs_dir": str(self.pages), "site_dir": str(site),
                           "nav": self.navigation(), "hooks": [str(HERE / "hooks.py")],
                           "extra": {"generator": False, **menu}}.items():
            config += "%s: %s\n" % (key, json.dumps(value))
        (self.work / "mkdocs.yml").write_text(config, encoding="utf-8")
        run = subprocess.run(["mkdocs", "build", "--strict", "-f", str(self.work / "mkdocs.yml")],
                             capture_output=True, text=True)
        said = [line for line in run.stderr.splitlines() if re.search("WARNING|ERROR", line)]
        if run.returncode or said:
            fail("mkdocs:\n" + ("\n".join(said) or run.stdout + run.stderr))
        self.order_search(site / "search/search_index.json")
        print("site: " + str(site / "index.html"))

    def order_search(self, file):
        """The search finds a member with its class. Guides, and the name that a header has, come first: the search
        gives tags the highest weight, and site.css hides them. Decisions, the log and the changelog come last."""
        for worker in file.parent.parent.glob("assets/javascripts/workers/search*.js"):  # versions before 8.3 ignore `boost`
            text = worker.read_text(encoding="utf-8")
            text = re.sub(r"(for\(let (\w) of \w\)this\.add\(\2)\)", r"\1,{boost:\2.boost||1})", text)
            worker.write_text(text, encoding="utf-8")
        index, kept = json.loads(file.read_text(encoding="utf-8")), []
        for entry in index["docs"]:
            page, _, anchor = entry["location"].partition("#")
            if page == NAMES + "index.html":  # it has all names, and would match each search
                continue
            own = self.texts.get(page.removesuffix(".html") + ".md", "")
            member = page.startswith(NAMES) and anchor and not re.search("(?m)^## .*{ #%s }$" % re.escape(anchor), own)
            if member and kept[-1]["location"] != page:  # the first entry with an anchor is that of the title
                kept[-1]["text"] += " %s %s" % (entry["title"], entry["text"])
                continue
            kept.append(entry)
            if self.places.get(page.removesuffix(".html") + ".md") == "docs/reference/errors.md":
                entry["title"] = entry["title"].replace(" ", "_")  # one word: errors would hide pages about theirs
            header = re.fullmatch(NAMES + r".*/(\w+)\.html", page)
            if page.startswith("docs/learn/") or page in ("index.html", "quick-start.html", "docs/policy.html", "CONTRIBUTING.html"):
                entry.update(tags=entry["title"].split(), boost=100)
            elif header and anchor == entry["title"] and anchor.lower() == header[1].replace("_", ""):
                entry["tags"] = [anchor]
            elif page.startswith(("docs/decisions/", "benchmarks/", "CHANGELOG")):
                entry["boost"] = 1e-4
        index["docs"] = kept
        file.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    work = folder.with_name(folder.name + "-work")
    missing = [tool for tool in ("doxygen", "mkdocs") if not shutil.which(tool)]
    if missing:
        fail("no %s here (Debian: doxygen, mkdocs-material)" % " and no ".join(missing), 77)
    if "material" not in subprocess.run(["mkdocs", "build", "--help"], capture_output=True, text=True).stdout:
        fail("MkDocs has no theme \"material\" (Debian: mkdocs-material)", 77)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    doxyfile = (HERE / "Doxyfile.in").read_text(encoding="utf-8")
    macros = ('"SHARDWISE_%s(name,...)=%s"' % (name, text.replace("\n", " ")) for name, text in names.MACROS.items())
    doxyfile = doxyfile.replace("@MACROS@", " ".join(macros))
    doxyfile = doxyfile.replace("@INCLUDE@", str(ROOT / "include")).replace("@OUTPUT@", str(work))
    if subprocess.run(["doxygen", "-"], input=doxyfile, text=True).returncode:
        fail("Doxygen warns")
    site = Site(work)
    site.read()
    site.reference(work / "xml")
    site.write()
    site.make(folder)


if __name__ == "__main__":
    main()

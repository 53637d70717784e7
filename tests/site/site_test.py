# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Builds the site, without a warning, and checks it: `site_test.py ROOT SITE`. All links lead to a page, an anchor or a
file that is there; pages load nothing from other hosts, have an active tab, and name the version; signatures are as
calls write them; the search finds names, variables and options, also in a Chromium if there is one, and puts decisions
last. Exits with 77 where there is no MkDocs, no theme or no Doxygen."""

import functools
import html.parser
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "browser"))
import browser

SEARCHED = {
    "Linear": "docs/reference/names/nn/linear.html",
    "redistribute": "docs/reference/names/autograd/redistribute.html",
    "save_checkpoint": "docs/reference/names/checkpoint/save.html",
    "--rate": "docs/reference/programs.html",
    "SHARDWISE_TRANSPORT": "docs/reference/environment.html",
    "dimension_sharded_on_one_side_only": "docs/reference/errors/dimension_sharded_on_one_side_only.html",
}
SIGNATURES = {
    "tensor/distribute": "distribute<Placements...>(mesh, matrix)",
    "linalg/matrix_product": "matrix_product<To...>(a, b, MatrixProductOptions options = {})",
    "train/clip": "double clip_gradients(module, double max_norm, double p = 2, ReduceOptions options = {})",
    "tensor/tensor": "class Tensor<T, int Rank, MeshType, Placements...>",
}
DECISIONS = ["gradient buckets", "pipeline checkpoints"]  # words of their titles


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads, self.classes = set(), set(), set(), set()
        self.has_version = re.search(r'<span class="md-ellipsis">\s*Shardwise \d', text)
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids.add(found.get("id"))
        self.classes |= set((found.get("class") or "").split())
        if tag == "a" and found.get("href"):
            self.links.add(found["href"])
        if tag in ("img", "script", "link", "source", "iframe") and found.get("rel") != "canonical":
            self.loads |= {found[key] for key in ("src", "srcset", "href") if found.get(key)}


def problems_of(site):
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        if path.name != "404.html" and "md-tabs__link--active" not in page.classes:
            yield "%s has no active tab" % path.relative_to(site).as_posix()
        if not page.has_version:
            yield "%s: no version in the header" % path.relative_to(site).as_posix()
        for link in sorted(page.links | page.loads):
            name = path.relative_to(site).as_posix()
            if re.match(r"(https?:)?//", link):
                if link in page.loads:
                    yield "%s loads %s" % (name, link)
                continue
            if link.startswith(("mailto:", "data:")):
                continue
            file, _, anchor = link.partition("#")
            if file.startswith("/") or path.name == "404.html":  # the page of a server for all paths
                continue
            to = pathlib.Path(os.path.normpath(path.parent / urllib.parse.unquote(file))) if file else path
            to = to / "index.html" if to.is_dir() else to
            if not to.is_file():
                yield "%s: no %s" % (name, link)
            elif anchor and to in pages and urllib.parse.unquote(anchor) not in pages[to].ids:
                if not anchor.startswith("__"):  # of the theme
                    yield "%s: no anchor %s" % (name, link)
    entries = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    for word, page in SEARCHED.items():
        texts = [entry["title"] + " " + entry["text"] for entry in entries if entry["location"].split("#")[0] == page]
        if not any(re.search(r"(?<!\w)%s\b" % word, text) for text in texts):
            yield "the search does not find %s in %s" % (word, page)
    names = site.with_name(site.name + "-work") / "pages/docs/reference/names"
    for header, signature in SIGNATURES.items():
        if signature not in (names / (header + ".md")).read_text(encoding="utf-8").split("\n"):
            yield "%s does not have %s" % (header, signature)
    for path in names.rglob("*.md"):
        for block in re.findall(r"(?m)^##.*\n+(?:<a .*\n+)?```cpp\n([^`]*)```", path.read_text(encoding="utf-8")):
            if re.search(r"detail::|\btypename\b|\brequires\b", block) and "concept " not in block:
                yield "%s shows what no call writes:\n%s" % (path.relative_to(names), block)


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def searched_in_browser(site):
    """The search box, with a person's words in it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with browser.Browser() as page:
        page.call("Page.navigate", url="http://127.0.0.1:%d/index.html" % server.server_port)
        page.until(lambda message: message.get("method") == "Page.loadEventFired", 60, "opening the site")
        words = {**SEARCHED, "sw::Linear": SEARCHED["Linear"], "--rate": "rate_schedule", **dict.fromkeys(DECISIONS, "decisions")}
        for text, expected in words.items():
            page.run("""{
              const input = document.querySelector(".md-search__input");
              document.querySelector("[data-md-toggle=search]").checked = true;
              input.focus(), input.value = %s;
              input.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
            }""" % json.dumps(text))
            found, end = [], time.monotonic() + 20
            while not any(expected in link for link in found) and time.monotonic() < end:
                time.sleep(0.2)
                found = page.run("[...document.querySelectorAll('.md-search-result__link')].map(link => link.href)")
            if not any(expected in link for link in found):
                yield "the search box finds %s for %s, not %s" % (found[:10], text, expected)
            if found and "/decisions/" in found[0]:
                yield "the search box begins with %s for %s" % (found[0], text)
        yield from page.problems
    server.shutdown()


def main(root, site):
    make = [sys.executable, "-B", str(root / "cmake/site/make.py"), str(site)]
    run = subprocess.run(make, capture_output=True, text=True)
    if run.returncode == 77:
        print("skipped: " + run.stderr)
        return 77
    problems = [run.stdout + run.stderr] if run.returncode else list(problems_of(site))
    if not run.returncode and browser.program():
        problems += searched_in_browser(site)
    # It can fail: a link to an anchor that is not there is found.
    if not problems:
        page = site / "index.html"
        text = page.read_text(encoding="utf-8")
        wrong = '<a href="quick-start.html#nowhere">x</a><img src="none.png"></body>'
        page.write_text(text.replace("</body>", wrong), encoding="utf-8")
        seen = list(problems_of(site))
        page.write_text(text, encoding="utf-8")
        if seen != ["index.html: no none.png", "index.html: no anchor quick-start.html#nowhere"]:
            problems = ["two mistakes in a page were found as: %s" % seen]
    print("\n".join(problems) or run.stdout.strip())
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*map(pathlib.Path, sys.argv[1:])))

# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""The pictures of the documentation, light and dark, from pages: `pictures.py FOLDER PAGE…`."""

import pathlib
import sys

import browser

folder, *files = map(pathlib.Path, sys.argv[1:])
with browser.Browser() as page:
    for file in files:
        for dark in (False, True):
            page.look(900, scale=1.5, dark=dark)
            page.open(file)
            page.run("find('#controls').hidden = true, find('#about').style.fontWeight = 'normal', redraw()")
            page.picture(folder / (file.stem + ("-dark" if dark else "") + ".webp"))
    if page.problems:
        sys.exit("\n".join(page.problems))

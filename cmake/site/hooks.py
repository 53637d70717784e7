# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""For MkDocs: the navigation of a page lists the headers of its own folder, and not the 365 of all."""

whole = {}


def prune(items):
    for item in items:
        if item.children:
            children = whole.setdefault(id(item), item.children)
            item.children = children if item.active or not children[0].is_page or not children[0].is_index else children[:1]
            prune(item.children)


def on_page_context(context, nav, **_):
    prune(nav.items)
    return context

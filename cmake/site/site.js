// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// The search reads `--rate` and `sw::Linear` as operators of its query language. Here, signs only separate words.
const input = document.querySelector(".md-search__input");
const {get, set} = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
Object.defineProperty(input, "value", {
  get() { return get.call(this).replace(/[^\p{L}\p{N}_\s"]+/gu, " ").replace(/^\s+/, ""); },
  set(text) { set.call(this, text); },
});

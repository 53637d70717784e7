// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
//
// Makes tests/data/families/tokenizers.json: small files with the steps of each family's tokenizer.json, and the tokens that
// Hugging Face's library makes of texts. The 256 tokens of bytes are left out of the vocabularies; the test adds them.
//
//   npm install tokenizers && node tests/reference/tokenizers.mjs
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";
const { Tokenizer } = createRequire(process.cwd() + "/")("tokenizers");

const texts = [
  "", " ", "low lower", "  low   low", "Low's we'LL", "1234567 x12", "a\n\n\nb \r\n\r\nc\t", "lowlow\n", "e\u0301 \u00e9 \ufb01 a\u0323\u0302",
  "\u0928\u092e\u0938\u094d\u0924\u0947 \u0645\u0631\u062d\u0628\u0627 \u0627\u0653 \u0661\u0662\u0663\u0664", "\u4f60\u597d\u3001\u4e16\u754c123", "\ud83c\udde9\ud83c\uddea \ud83d\udc68\u200d\ud83d\udc69\u200d\ud83d\udc67 \ud83d\udc4d\ud83c\udffd",
  "camelCaseLOW HTTPLow", "x = y/2; // low\n    }", "<s>low</s>", "<|end|> low <|end|>\n low", "\u2581low \u2581", "<0x0A>\u0000\u00a0", "    \n  \n"];

// The merges of "low", "er", "lowlow", and of runs.
const bytes = ["l o", "lo w", "e r", "\u0120 low", "\u0120 l", "low low", "w e", "\u010a \u010a", "\u0120 \u0120", "\u0120\u0120 \u0120\u0120", "1 2", "12 3", "4 5", "\u00e5 \u00a5", "\u00f0 \u0141", "\u00f0\u0141 \u0133", "L o", "L O", "a s", "\u010d \u010a"];
const marks = ["l o", "lo w", "e r", "\u2581 low", "\u2581 l", "low low", "w e", "\u2581 \u2581", "\u2581\u2581 \u2581\u2581", "1 2", "12 3", "L o", "Lo w", "\n \n", "\n\n \n"];
const added = (all, more = {}) => all.map((content) => ({
  id: null, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...more }));
const around = (token) => ({  // its id, and those of added tokens, are set below
  type: "TemplateProcessing", single: [{ SpecialToken: { id: token, type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
  pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }],
  special_tokens: { [token]: { id: token, ids: [], tokens: [token] } } });
const byteLevel = (use_regex = false) => ({ type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex });
const split = (Regex) => ({ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false });
const sequence = (...pretokenizers) => ({ type: "Sequence", pretokenizers });
const replace = (from, to) => ({ type: "Replace", pattern: { String: from }, content: to });
const fallback = { type: "Sequence", decoders: [replace("\u2581", " "), { type: "ByteFallback" }, { type: "Fuse" }] };
const stripped = { ...fallback, decoders: [...fallback.decoders, { type: "Strip", content: " ", start: 1, stop: 0 }] };

function model(merges, first, more, words = []) {
  const vocab = {};
  const add = (token) => { if (!(token in vocab)) vocab[token] = first++; };
  if (more.byte_fallback) for (const c of "\u2581lowerLO12345a\nbcx=") add(c);
  for (const merge of merges) add(merge.replace(" ", ""));
  words.forEach(add);
  return { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
           fuse_unk: false, byte_fallback: false, ignore_merges: false, ...more, vocab, merges };
}
const ofBytes = (pre_tokenizer, more) => ({
  version: "1.0", truncation: null, padding: null, added_tokens: added(["<s>", "</s>", "<|end|>"]), normalizer: null,
  pre_tokenizer, post_processor: byteLevel(true), decoder: byteLevel(true), model: model(bytes, 256, {}), ...more });
const ofMarks = (more) => ({
  ...ofBytes(null), post_processor: around("<s>"), decoder: stripped, added_tokens: [...added(["<unk>", "<s>", "</s>"]), ...added(["<|end|>"])],
  model: model(marks, 259, { unk_token: "<unk>", fuse_unk: true, byte_fallback: true }), ...more });
const prepended = { type: "Sequence", normalizers: [{ type: "Prepend", prepend: "\u2581" }, replace(" ", "\u2581")] };

const ends = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const words = (digits) => `${ends}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;
const upper = "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}", lower = "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}", before = "[^\\r\\n\\p{L}\\p{N}]?";
const cased = `${before}[${upper}]*[${lower}]+|${before}[${upper}]+[${lower}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;
const families = {
  "Llama 2, Mistral v0.1, Mixtral": ofMarks({ normalizer: prepended }),
  "Mistral v0.3": ofMarks({ pre_tokenizer: { type: "Metaspace", replacement: "\u2581", prepend_scheme: "first", split: false } }),
  "Phi 3": ofMarks({ normalizer: prepended, added_tokens: [...added(["<unk>", "<s>"]), ...added(["</s>"], { rstrip: true, special: false }), ...added(["<|end|>"], { rstrip: true })] }),
  "Gemma 2 and 3": ofMarks({ normalizer: replace(" ", "\u2581"), decoder: fallback,
    pre_tokenizer: { type: "Split", pattern: { String: " " }, behavior: "MergedWithPrevious", invert: false },
    added_tokens: [...added(["<unk>", "<s>", "</s>"]), ...added(["<|end|>", "\n\n", "\n\n\n", "\u2581\u2581\u2581"], { special: false })] }),
  "Llama 3": ofBytes(sequence(split(words("\\p{N}{1,3}")), byteLevel()), {
    post_processor: { type: "Sequence", processors: [byteLevel(true), around("<s>")] },
    model: model(bytes, 256, { ignore_merges: true }, ["lower", "\u0120lower"]) }),
  "Mistral Nemo": ofBytes(sequence(split(cased), byteLevel()), { post_processor: around("<s>"), model: model(bytes, 256, { ignore_merges: true }, ["lower", "LOW"]) }),
  "Qwen 2.5 and 3": ofBytes(sequence(split(words("\\p{N}")), byteLevel()), { normalizer: { type: "NFC" }, post_processor: byteLevel(), decoder: byteLevel() }),
  "DeepSeek V3": ofBytes(sequence(split("\\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
    split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), byteLevel()), {
    normalizer: { type: "Sequence", normalizers: [] }, added_tokens: added(["<s>", "</s>", "<|end|>"], { normalized: true }) }),
  "SmolLM2": ofBytes(sequence({ type: "Digits", individual_digits: true }, byteLevel(true)), { post_processor: null }),
};

const results = {};
for (const [family, file] of Object.entries(families)) {
  const vocab = {};  // the tokens of bytes
  if (file.model.byte_fallback) {
    ["<unk>", "<s>", "</s>"].forEach((token, id) => (file.model.vocab[token] = id));
    for (let byte = 0; byte < 256; ++byte) vocab[`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`] = 3 + byte;
  } else {
    let next = 0x100;
    for (let byte = 0; byte < 256; ++byte) {
      const visible = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      vocab[String.fromCharCode(visible ? byte : next++)] = byte;
    }
  }
  let next = 256 + Object.keys(file.model.vocab).length;
  for (const token of file.added_tokens) token.id = file.model.vocab[token.content] ?? next++;
  for (const part of [file.post_processor, ...(file.post_processor?.processors ?? [])])
    if (part?.special_tokens) part.special_tokens["<s>"].ids = file.added_tokens.filter((t) => t.content == "<s>").map((t) => t.id);
  const whole = { ...file, model: { ...file.model, vocab: { ...vocab, ...file.model.vocab } } };
  const tokenizer = Tokenizer.fromString(JSON.stringify(whole));
  results[family] = { file, texts: [] };
  for (const text of texts) {
    const ids = [...(await tokenizer.encode(text, null, { addSpecialTokens: true })).getIds()];
    results[family].texts.push([text, ids, await tokenizer.decode(ids, true)]);
  }
}
writeFileSync("tests/data/families/tokenizers.json", JSON.stringify(results) + "\n");

// Who wrote what: one block a span, its text coloured by author or, token for token, by mask.

import { element, shown } from "./common.js";
import { count } from "./parts.js";

const STEP = 20000; // characters of a span that are shown at a time
const AUTHORS = { prompt: "Prompt", policy: "Policy", environment: "Environment" };
// What stands for the bracket of a tag, of a chat template's marker, and for the `&` of such a form itself.
const ESCAPED = /&(?:lt|#91|amp);/g;
const MEANS = { "&lt;": "<", "&#91;": "[", "&amp;": "&" };

/**
 * A span: `span` is the record's, `turn` what the policy did in it, `content` where the query or answer stands, `ends` where
 * its tokens end, `policy` and `query` its parts of the masks.
 */
export function block({ span, turn, number, content, ends, policy, query }, { mask, raw, escaped }) {
  const body = element("div", { class: "text", dir: "auto" });
  const inert = escaped && span.author === "environment";
  const pieces = mask ? byToken(span, ends, policy, query) : inert && !raw ? readable(span.text) : marked(span.text, turn, content);
  if (!mask) foldEdges(pieces);
  reveal(body, pieces, STEP);
  const facts = [
    span.role,
    span.tokens?.length ? `${count(span.tokens.length)} token${span.tokens.length === 1 ? "" : "s"}` : null,
    mask ? gap(span, ends) : null,
  ].filter(Boolean).join(" · ");
  return element("section", { class: `block ${span.author}`, "data-author": span.author },
    element("h3", {}, AUTHORS[span.author] ?? span.author, number === null ? null : ` ${number}`, " ",
      element("span", { class: "facts" }, facts),
      turn?.cut_off ? element("span", { class: "badge warn" }, "cut off by its limit") : null),
    body);
}

/** What is not known of a span's tokens. */
function gap(span, ends) {
  if (!span.text) return null;
  if (!span.tokens?.length) return "no tokens recorded";
  return ends.length ? null : "where they end is not recorded";
}

/** The text with its query or answer marked. */
function marked(text, turn, content) {
  const kind = { search: "asked", answer: "answered" }[turn?.action.kind];
  if (!kind || !content) return [{ text }];
  const [from, to] = content;
  return [{ text: text.slice(0, from) }, { text: text.slice(from, to), class: kind }, { text: text.slice(to) }];
}

/** An observation as its passages were before they were made inert; what was replaced is marked. */
function readable(text) {
  const pieces = [];
  let from = 0;
  for (const { 0: form, index } of text.matchAll(ESCAPED)) {
    pieces.push({ text: text.slice(from, index) }, { text: MEANS[form], class: "escaped", title: `The policy saw ${form}` });
    from = index + form.length;
  }
  return [...pieces, { text: text.slice(from) }];
}

/** Line breaks at either end become small signs: they matter to a model and only push the text away for a reader. */
function foldEdges(pieces) {
  const fold = (breaks) => ({ text: breaks, class: "edge", sign: "↵".repeat(Math.min(breaks.length, 9)), title: `${breaks.length} line breaks` });
  const [before] = pieces[0].text.match(/^\n+/) ?? [""];
  pieces[0].text = pieces[0].text.slice(before.length);
  const last = pieces.at(-1);
  const [after] = last.text.match(/\n+$/) ?? [""];
  last.text = last.text.slice(0, last.text.length - after.length);
  if (before) pieces.unshift(fold(before));
  if (after) pieces.push(fold(after));
}

/** One piece a token where it is known where they end, else the whole text in one. */
function byToken(span, ends, policy, query) {
  const kind = (place) => (policy[place] === "1" ? "trained" : "untrained") + (query[place] === "1" ? " query" : "");
  if (!span.tokens?.length) return [{ text: span.text, class: "unknown" }];
  if (!ends.length) return [{ text: span.text, class: kind(0) }];
  let from = 0;
  const pieces = ends.map((end, place) => {
    const logprob = span.logprobs?.[place];
    const title = `token ${span.tokens[place]}${Number.isFinite(logprob) ? `, log-probability ${logprob.toFixed(3)}` : ""}`;
    const text = span.text.slice(from, end);
    const piece = { text, class: `token ${kind(place)}${place % 2 ? " odd" : ""}${/^\n+$/.test(text) ? " break" : ""}`, title };
    from = Math.max(from, end);
    return piece;
  });
  return [...pieces, { text: span.text.slice(from), class: "unknown" }];
}

/** Shows pieces of up to `most` characters in all, and a button for the next: a span may be megabytes. */
function reveal(body, pieces, most) {
  const all = pieces.reduce((sum, piece) => sum + piece.text.length, 0);
  const fragment = document.createDocumentFragment();
  let room = most;
  for (const piece of pieces) {
    if (room <= 0 && all > most) break;
    const text = piece.text.length > room ? piece.text.slice(0, room).toWellFormed() : piece.text;
    room -= piece.text.length;
    const made = piece.class ? element("span", { class: piece.class, title: piece.title, "data-sign": piece.sign }, shown(text)) : shown(text);
    if (text || piece.class) fragment.append(made);
  }
  body.replaceChildren(fragment);
  if (all <= most) return;
  const more = element("button", { type: "button", class: "more" }, `Show more (${count(all - most)} characters)`);
  more.addEventListener("click", () => reveal(body, pieces, most + STEP));
  body.append("… ", more);
}

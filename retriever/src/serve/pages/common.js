// What the pages share: elements made of text alone, hidden characters made visible, and one way to call the server.
// Nothing here or elsewhere parses HTML from data: strings become text nodes.

/** An element. Strings among `children` become text nodes, null ones are left out. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Controls, default-ignorable characters (bidi marks, zero widths, tags), line separators, lone surrogates. Line break
// and tab have their own look; joiners and variation selectors belong to Persian, Hindi and emoji.
const HIDDEN = /(?![\n\t\u200C\u200D\uFE00-\uFE0F])[\p{Cc}\p{DI}\p{Zl}\p{Zp}\p{Cs}\uFFF9-\uFFFB]/gu;

const NAMES = {
  0x00: "NUL", 0x07: "BEL", 0x08: "BS", 0x0d: "CR", 0x1b: "ESC", 0x7f: "DEL", 0x9b: "CSI", 0xad: "SHY",
  0x061c: "ALM", 0x200b: "ZWSP", 0x200e: "LRM", 0x200f: "RLM", 0x202a: "LRE", 0x202b: "RLE", 0x202c: "PDF",
  0x202d: "LRO", 0x202e: "RLO", 0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI", 0xfeff: "BOM",
};

/** The text as a fragment in which every hidden character is a small box with its name. */
export function shown(text) {
  const fragment = document.createDocumentFragment();
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    const code = match[0].codePointAt(0);
    const point = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    fragment.append(text.slice(from, match.index), element("span", { class: "control", title: point }, NAMES[code] ?? point));
    from = match.index + match[0].length;
  }
  fragment.append(text.slice(from));
  return fragment;
}

/** The text with `code` between backticks as code; nothing else is markup. */
export function prose(text) {
  const fragment = document.createDocumentFragment();
  for (const piece of text.split(/(`[^`\n]+`)/)) {
    fragment.append(/^`[^`]+`$/.test(piece) ? element("code", {}, shown(piece.slice(1, -1))) : shown(piece));
  }
  return fragment;
}

/** What `shown` shows as a plain string, for where elements cannot go. */
export function shownText(text) {
  return text.replace(HIDDEN, (hidden) => `[U+${hidden.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
}

/** `text` up to about `length` UTF-16 units, never half a character. */
export function cut(text, length) {
  const high = text.charCodeAt(length - 1);
  return text.slice(0, high >= 0xd800 && high <= 0xdbff ? length - 1 : length);
}

const KEY = "hindsearch.token";
let held = "";
try {
  held = sessionStorage.getItem(KEY) ?? "";
} catch {
  // Storage may be switched off: then the token lives as long as the page.
}

/** The bearer token of this tab; empty when there is none. */
export const token = {
  get: () => held,
  set(value) {
    held = value.trim();
    try {
      if (held) sessionStorage.setItem(KEY, held);
      else sessionStorage.removeItem(KEY);
    } catch {
      // As above.
    }
  },
};

/** What went wrong, in the words of the server where it has any. */
export class Failure extends Error {
  constructor({ code, message, status = null, requestId = null, retryAfter = null }) {
    super(message);
    Object.assign(this, { code, status, requestId, retryAfter });
  }
}

/** A value for a header: printable ASCII or nothing, since anything else makes `fetch` throw without saying why. */
const headerSafe = (value) => /^[\x21-\x7e]+$/.test(value);

/** Calls the server and returns its JSON, or throws a `Failure`. */
export async function call(path, { body, signal } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (held && !headerSafe(held)) {
    throw new Failure({ code: "unauthorized", status: 401, message: "A token is printable ASCII without spaces; this one is not" });
  }
  if (held) headers.Authorization = `Bearer ${held}`;
  let response, text;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      body: body === undefined ? undefined : JSON.stringify(body),
      headers, signal, cache: "no-store", credentials: "omit", redirect: "error",
    });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure({ code: "unreachable", message: "The server cannot be reached: is it running, and is this its address?" });
  }
  let json = null;
  try {
    json = JSON.parse(text);
  } catch {
    // Told below, with the status.
  }
  if (response.ok && json !== null) return json;
  throw new Failure({
    code: String(json?.code ?? "unexpected"),
    message: String(json?.message ?? `The server answered ${response.status} without the JSON that was expected`),
    status: response.status,
    requestId: json?.request_id ?? response.headers.get("x-request-id"),
    retryAfter: response.headers.get("retry-after"),
  });
}

// The search page: a query in, ranked passages out. The address holds the query, so that reload and back work.

import { call, cut, element, Failure, shown, shownText, token } from "./common.js";

const PREVIEW = 1500; // characters of a passage shown at first
const STEP = 20000; // and at each "Show more"
const FIELDS = ["id", "title", "text", "score"];
const STAGES = ["queue", "embed", "search"];

const at = (id) => document.getElementById(id);
let running = null; // the AbortController of the request under way

const milliseconds = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

/** The query and number of passages that the address names. */
function asked() {
  const parameters = new URLSearchParams(location.search);
  return { query: parameters.get("q") ?? "", topK: /^\d{1,9}$/.test(parameters.get("k") ?? "") ? Number(parameters.get("k")) : 10 };
}

function address(query, topK) {
  const parameters = new URLSearchParams({ q: query });
  if (topK !== 10) parameters.set("k", topK);
  return `?${parameters}`;
}

/** Shows what the address asks for. */
async function run() {
  const { query, topK } = asked();
  running?.abort();
  at("query").value = query;
  at("top-k").value = topK;
  document.title = query ? `${shownText(cut(query, 80))} · hindsearch` : "hindsearch";
  if (!query.trim()) return show({ idle: true });
  const mine = (running = new AbortController());
  busy(true);
  try {
    const answer = await call("v1/search", { body: { query, top_k: topK, fields: FIELDS }, signal: mine.signal });
    const hits = answer?.results?.[0]?.hits;
    if (!Array.isArray(hits)) throw new Failure({ code: "unexpected", message: "The answer holds no list of passages: is this a hindsearch server?" });
    if (mine === running) show({ answer, hits });
  } catch (error) {
    if (mine !== running || error.name === "AbortError") return;
    show({ failure: error instanceof Failure ? error : new Failure({ code: "page", message: String(error) }) });
  }
}

function busy(yes) {
  at("progress").hidden = !yes;
  at("hits").setAttribute("aria-busy", yes);
  document.body.classList.toggle("busy", yes);
  if (yes) at("status").replaceChildren("Searching…");
}

/** Draws one of three states: an answer, a failure, or nothing asked yet. */
function show({ answer = null, hits = [], failure = null, idle = false }) {
  busy(false);
  at("failure").hidden = !failure;
  at("authorise").hidden = failure?.status !== 401;
  at("empty").hidden = !idle;
  at("timings").hidden = !answer;
  at("failure").replaceChildren(...(failure ? failureLines(failure) : []));
  at("hits").replaceChildren(...cards(hits));
  at("status").replaceChildren(answer ? summary(answer, hits) : "");
  at("timings").replaceChildren(...(answer ? timings(answer.timings ?? {}) : []));
  if (answer) at("index").replaceChildren(...facts(answer));
  if (failure?.status === 401) at("token").focus();
}

function summary(answer, hits) {
  const total = answer.timings?.total_ms;
  const found = hits.length ? plural(hits.length, "passage") : "No passage found";
  const cutOff = answer.results[0].truncated ? ". The query is longer than the model reads: its end was ignored" : "";
  return `${found}${Number.isFinite(total) ? ` in ${milliseconds(total)}` : ""}${cutOff}`;
}

function cards(hits) {
  const best = Math.max(1, ...hits.map((hit) => Math.abs(hit.score) || 0));
  return hits.map((hit, place) => {
    const title = hit.title ?? "";
    const body = element("p", { class: "text", dir: "auto" });
    const card = element("li", { class: "hit" },
      element("div", { class: "head" },
        element("span", { class: "rank", "aria-hidden": "true" }, String(place + 1)),
        element("h3", { class: "title", dir: "auto" }, title ? shown(cut(title, 500)) : element("span", { class: "untitled" }, "Untitled")),
        score(hit.score, best)),
      body,
      element("p", { class: "meta small" }, "id ", element("bdi", {}, shown(cut(String(hit.id), 200)))));
    reveal(body, String(hit.text ?? ""), PREVIEW);
    return card;
  });
}

/** Shows the first `length` characters, and a button for the next: a passage may be a megabyte. */
function reveal(body, text, length) {
  const part = text.length > length ? cut(text, length) : text;
  body.replaceChildren(shown(part));
  if (part.length === text.length) return;
  const more = element("button", { type: "button", class: "more" }, `Show more (${plural(text.length - part.length, "character")})`);
  more.addEventListener("click", () => {
    reveal(body, text, length + STEP);
    (body.querySelector("button") ?? body).focus();
  });
  body.tabIndex = -1;
  body.append("… ", more);
}

function score(value, best) {
  if (!Number.isFinite(value)) return null;
  const bar = element("span", { class: "fill" });
  bar.style.width = `${Math.max(0, (100 * value) / best)}%`;
  return element("span", { class: "score", title: `Score ${value}` },
    element("span", { class: "hidden" }, "Score "), value.toFixed(4), element("span", { class: "track", "aria-hidden": "true" }, bar));
}

/** Where the time went: one bar, and the same in words. */
function timings(times) {
  const total = times.total_ms;
  if (!Number.isFinite(total)) return [];
  const parts = STAGES.map((stage) => [stage, Math.max(0, times[`${stage}_ms`] ?? 0)]);
  const rest = total - parts.reduce((sum, [, value]) => sum + value, 0);
  parts.push(["rest", Math.max(0, rest)]);
  const bar = element("div", { class: "stages", "aria-hidden": "true" }, ...parts.map(([stage, value]) => {
    const part = element("span", { class: stage });
    part.style.flexGrow = value;
    return part;
  }));
  const entry = (stage, value) => element("div", { class: stage }, element("dt", {}, stage), element("dd", {}, milliseconds(value)));
  return [bar, element("dl", { class: "small" }, ...parts.map(([stage, value]) => entry(stage, value)), entry("total", total))];
}

function facts({ index = {}, request_id: request }) {
  const fact = (name, value) => (value === undefined || value === null ? null : element("span", {}, `${name} `, element("bdi", {}, shown(String(value)))));
  const rows = Number.isFinite(index.rows) ? plural(index.rows, "passage") : null;
  return [rows && element("span", {}, rows), fact("model", index.model), fact("generation", index.generation), fact("request", request)].filter(Boolean);
}

function failureLines(failure) {
  const again = element("button", { type: "button" }, "Try again");
  again.addEventListener("click", run);
  const wait = /^\d+$/.test(failure.retryAfter ?? "") ? ` Try again in ${plural(Number(failure.retryAfter), "second")}.` : "";
  return [
    element("p", { class: "code" }, shown(failure.code), failure.status ? ` (${failure.status})` : ""),
    element("p", { dir: "auto" }, shown(failure.message), wait),
    failure.requestId ? element("p", { class: "small" }, "Request ", element("code", {}, shown(String(failure.requestId)))) : null,
    failure.status === 401 ? null : again,
  ].filter(Boolean);
}

at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const query = at("query").value;
  const topK = at("top-k").valueAsNumber || 10;
  const next = address(query, topK);
  if (!query.trim()) return at("query").focus();
  if (next !== address(asked().query, asked().topK)) history.pushState(null, "", next);
  run();
});
at("authorise").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(at("token").value);
  at("token").value = "";
  run();
});
window.addEventListener("popstate", run);
run();

// The list: filters with their counts, and a hundred trajectories a page.

import { change } from "./address.js";
import { element, shown, shownText } from "./common.js";
import { STOPS, count, number, rewardBadge, stopBadge } from "./parts.js";

const COLUMNS = [
  ["line", "Line"], ["reward", "Reward"], ["task", "Question"], ["stop", "Over by"],
  ["turns", "Turns"], ["searches", "Searches"], ["tokens", "Tokens"],
];
const FIELDS = ["text", "least", "most", "error", "critique"];
const TYPING = 200; // milliseconds of silence after which what was typed counts
const at = (id) => document.getElementById(id);

/** Draws the server's answer. */
export function drawList(answer, wanted) {
  at("stops").replaceChildren(at("stops").querySelector("legend"), ...stops(answer.stops, wanted));
  at("status").replaceChildren(...status(answer, wanted));
  at("rewards").replaceChildren(...rewards(answer.rewards));
  at("columns").replaceChildren(...COLUMNS.map(([name, title]) => column(name, title, wanted)));
  at("rows").replaceChildren(...answer.trajectories.map(row));
  at("none").hidden = answer.matched > 0;
  pager(answer);
}

function stops(all, wanted) {
  const total = all.reduce((sum, [, many]) => sum + many, 0);
  const chip = (value, name, many) => element("a", {
    class: "chip", ...change({ stop: value, offset: null }), "aria-current": (wanted.stop ?? null) === value ? "true" : undefined,
  }, name, " ", element("span", { class: "many" }, count(many)));
  return [chip(null, "all", total), ...all.map(([stop, many]) => chip(stop ?? "none", STOPS[stop] ?? "not over", many))];
}

function status({ matched, plays, failed, superseded, trajectories }, wanted) {
  const notes = [
    matched === plays ? `${count(plays)} trajectories` : `${count(matched)} of ${count(plays)} trajectories`,
    failed ? `${count(failed)} with an error` : null,
    superseded ? `${count(superseded)} played again since` : null,
  ].filter(Boolean).join(" · ");
  if (!wanted.task) return [notes];
  const all = element("a", change({ task: null, offset: null }), "Show all tasks");
  // A person knows a task by its question, not by its id.
  const question = trajectories.find((one) => one.question.trim())?.question ?? wanted.task;
  return [`${notes} of the task `, element("bdi", { title: shownText(wanted.task) }, shown(question)), " · ", all];
}

/** The mean, and how the rewards are spread. */
function rewards(all) {
  if (!all) return [];
  const highest = Math.max(...all.bars);
  const bars = element("span", { class: "bars", "aria-hidden": "true", title: `${number(all.least)} to ${number(all.most)}` }, ...all.bars.map((many) => {
    const bar = element("i");
    bar.style.height = `${many ? Math.max(8, (100 * many) / highest) : 0}%`;
    return bar;
  }));
  const range = all.least === all.most ? "" : ` (${number(all.least)} to ${number(all.most)})`;
  return [bars, element("span", {}, "mean reward ", element("b", {}, number(all.mean)), range)];
}

function column(name, title, wanted) {
  if (name === "stop") return element("th", { scope: "col", class: name }, title);
  const sorted = (wanted.sort ?? "line") === name;
  const descending = sorted && wanted.descending === "true";
  // Numbers are most interesting at their largest, the order of the file and of tasks from their beginning.
  const first = name !== "line" && name !== "task";
  const next = sorted ? !descending : first;
  const link = element("a", change({ sort: name === "line" ? null : name, descending: next ? "true" : null, offset: null }),
    title, element("span", { class: "arrow", "aria-hidden": "true" }, sorted ? (descending ? " ↓" : " ↑") : ""));
  return element("th", { scope: "col", class: name, "aria-sort": sorted ? (descending ? "descending" : "ascending") : undefined }, link);
}

function row(one) {
  const answer = one.error
    ? element("span", { class: "wrong", dir: "auto" }, shown(one.error))
    : one.answer === null ? element("span", { class: "faint" }, "no answer") : element("span", { class: "said", dir: "auto" }, "→ ", element("bdi", {}, shown(one.answer)));
  return element("tr", { class: one.error ? "failed" : undefined },
    element("td", { class: "line" }, String(one.line)),
    element("td", { class: "reward" }, rewardBadge(one.reward)),
    element("td", { class: "task" },
      element("a", { class: "question", dir: "auto", ...change({ line: one.line }) }, one.question.trim() ? shown(one.question) : "(no question)"),
      element("span", { class: "under" }, answer,
        element("span", { class: "id", title: shownText(one.task) }, element("bdi", {}, shown(one.source.slice(0, 60))), ` · play ${one.sample}`))),
    element("td", { class: "stop" }, stopBadge(one.stop, one.error), one.critique ? element("span", { class: "badge critique" }, "critique") : null),
    element("td", { class: "turns" }, String(one.turns)),
    element("td", { class: "searches" }, String(one.searches)),
    element("td", { class: "tokens" }, one.tokens === null ? "–" : count(one.tokens)));
}

function pager({ matched, offset, limit, trajectories }) {
  at("pager").hidden = matched <= limit && offset === 0;
  const to = (where, name) => element(where === null ? "span" : "a", where === null ? { class: "faint" } : change({ offset: where || null }), name);
  const last = Math.floor(Math.max(0, matched - 1) / limit) * limit;
  at("pager").replaceChildren(
    to(offset > 0 ? 0 : null, "First"), to(offset > 0 ? Math.max(0, offset - limit) : null, "Previous"),
    element("span", {}, trajectories.length ? `${count(offset + 1)} to ${count(offset + trajectories.length)} of ${count(matched)}` : "none here"),
    to(offset < last ? offset + limit : null, "Next"), to(offset < last ? last : null, "Last"));
}

/** Makes the fields change the address: all of them at once, since somebody may type in one soon after another. */
export function setUpFilters(go) {
  const fields = (value) => Object.fromEntries([...FIELDS, "offset"].map((name) => [name, name === "offset" ? null : value(name)]));
  let typed = 0;
  const apply = () => go(fields((name) => at(name).value.trim() || null), { replace: true });
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  at("filters").addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(apply, TYPING);
  });
  at("clear").addEventListener("click", () => {
    clearTimeout(typed);
    go({ ...fields(() => null), stop: null, task: null });
  });
}

/** Makes the fields show the address, but for the one that is being typed in. */
export function showFilters(wanted) {
  for (const name of FIELDS) {
    if (document.activeElement !== at(name)) at(name).value = wanted[name] ?? "";
  }
}

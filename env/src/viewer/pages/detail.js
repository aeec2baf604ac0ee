// One trajectory: who wrote what, what was looked for and found, and what it earned.

import { change } from "./address.js";
import { element, shown } from "./common.js";
import { STOPS, count, number, rewardBadge, stopBadge } from "./parts.js";
import { block } from "./transcript.js";

const PASSAGES = 50; // of a query that are listed at first

/** Draws the server's answer; `wanted` is what the address asks for. */
export function drawDetail(place, answer, wanted) {
  const { trajectory } = answer;
  const look = { mask: Boolean(wanted.mask), raw: Boolean(wanted.raw), escaped: answer.escaped };
  place.replaceChildren(
    steps(answer, look),
    element("header", {},
      element("h2", { id: "question", dir: "auto" }, trajectory.question.trim() ? shown(trajectory.question) : "(no question)"),
      facts(answer)),
    element("div", { class: "sides" },
      element("div", { class: "transcript" }, legend(look.mask), ...transcript(answer, look)),
      element("aside", {}, ...side(answer))));
}

/** The way to the neighbours and back, and how the text is shown. */
function steps({ place, escaped }, look) {
  const to = (line, name) => (line === null ? element("span", { class: "faint" }, name) : element("a", change({ line }), name));
  const way = (name, on, what) => element("a", { class: "way", ...change(what, true), "aria-current": on ? "true" : undefined }, name);
  const where = place.at === null ? "not among those filtered" : `${count(place.at + 1)} of ${count(place.of)}`;
  return element("nav", { class: "steps", "aria-label": "Trajectory" },
    element("a", { id: "back", ...change({ line: null, mask: null, raw: null }) }, "← All"),
    element("span", { class: "around" }, to(place.previous, "Previous"), element("span", { id: "where" }, where), to(place.next, "Next")),
    element("span", { class: "ways", role: "group", "aria-label": "Colours" },
      way("Authors", !look.mask, { mask: null }), way("Masks", look.mask, { mask: "1" })),
    element("span", { class: "ways", role: "group", "aria-label": "Observations", hidden: look.mask || !escaped },
      way("Readable", !look.raw, { raw: null }), way("As seen", look.raw, { raw: "1" })));
}

function facts({ line, superseded, trajectory }) {
  const fact = (name, ...value) => element("span", {}, `${name} `, ...value);
  return element("p", { class: "facts" },
    rewardBadge(trajectory.reward?.total), stopBadge(trajectory.stop, trajectory.error),
    fact("task", element("a", change({ task: trajectory.task, line: null, offset: null, mask: null, raw: null }), element("bdi", {}, shown(trajectory.task)))),
    fact("play", String(trajectory.sample)),
    fact("from", element("bdi", {}, shown(trajectory.source))),
    fact("recipe", element("bdi", {}, shown(trajectory.preset))),
    fact("line", String(line)),
    superseded ? element("span", { class: "badge warn" }, "played again since") : null);
}

function legend(mask) {
  const sign = (kind, name) => element("span", { class: `sign ${kind}` }, name);
  return element("p", { class: "legend" }, ...(mask
    ? [sign("trained", "policy mask"), sign("query", "query mask"), sign("untrained", "neither"), sign("unknown", "no tokens")]
    : [sign("prompt", "prompt"), sign("policy", "policy"), sign("environment", "environment"), sign("asked", "query"), sign("answered", "answer")]));
}

function transcript(answer, look) {
  const { spans, turns, error } = answer.trajectory;
  const drawn = error ? [element("div", { class: "panel failure" }, element("p", { class: "code" }, "Not played to its end"), element("p", { dir: "auto" }, shown(error)))] : [];
  let token = 0;
  for (const [place, span] of spans.entries()) {
    const ends = token + (span.tokens?.length ?? 0);
    const at = turns.findIndex((turn) => turn.span === place);
    const part = {
      span, turn: turns[at], number: at < 0 ? null : at + 1, content: answer.contents[at], ends: answer.ends[place] ?? [],
      policy: answer.policy_mask.slice(token, ends), query: answer.query_mask.slice(token, ends),
    };
    token = ends;
    drawn.push(block(part, look));
    drawn.push(...turns.filter((turn) => turn.span === place).map(outcome));
  }
  const lost = turns.filter((turn) => turn.span >= spans.length);
  if (lost.length) drawn.push(element("p", { class: "small" }, "Turns of which the record holds no text:"), ...lost.map(outcome));
  return drawn;
}

/** What the policy did in a turn, and what was found. */
function outcome(turn) {
  const { action, found } = turn;
  const said = (name, text, kind) => element("p", {}, `${name} `, element("q", { class: kind, dir: "auto" }, shown(text)));
  switch (action.kind) {
    case "search":
      return element("div", { class: "outcome" }, ...action.queries.flatMap((query, place) => [said("Asked for", query, "asked"), passages(found?.[place])]),
        turn.truncated ? element("p", { class: "small" }, "Passages were left out or shortened for lack of room.") : null,
        turn.experience?.length ? element("p", {}, "Experience shown behind the passages") : null, ...advice(turn.experience));
    case "answer":
      return element("div", { class: "outcome" }, said("Answered", action.text, "answered"));
    case "invalid":
      return element("div", { class: "outcome invalid" }, element("p", { dir: "auto" }, "No action: ", shown(action.reason)));
    default:
      return element("div", { class: "outcome" }, element("p", {}, "Ended without an answer in the form that was asked for."));
  }
}

function passages(found, most = PASSAGES) {
  if (!found) return element("p", { class: "small" }, "Was not searched for.");
  if (!found.length) return element("p", { class: "small" }, "Nothing was found.");
  const best = Math.max(...found.map((one) => Math.abs(one.score) || 0)) || 1;
  const row = (one, rank) => {
    const bar = element("i");
    bar.style.width = `${Math.max(0, (100 * one.score) / best)}%`;
    return element("tr", { class: one.shown ? "shown" : "left-out" },
      element("td", { class: "rank" }, String(rank + 1)),
      element("td", { class: "id" }, element("bdi", { title: `row ${one.row}` }, shown(one.id))),
      element("td", { class: "score" }, Number.isFinite(one.score) ? one.score.toFixed(4) : "–", element("span", { class: "track", "aria-hidden": "true" }, bar)),
      element("td", { class: "seen" }, one.shown ? "shown" : "left out"));
  };
  const head = ["", "Passage", "Score", ""].map((name) => element("th", { scope: "col" }, name));
  const table = element("table", { class: "passages" }, element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...found.slice(0, most).map(row)));
  if (found.length > most) {
    const more = element("button", { type: "button", class: "more" }, `Show ${count(found.length - most)} more`);
    more.addEventListener("click", () => table.replaceWith(passages(found, found.length)));
    table.append(element("caption", {}, more));
  }
  return table;
}

/** Pieces of experience, each with its entry and how near its key was. */
function advice(pieces = []) {
  return pieces.map((piece) => element("p", { class: "advice" },
    element("q", { dir: "auto" }, shown(piece.text)), " ",
    element("span", { class: "small" }, element("bdi", {}, shown(piece.entry)), Number.isFinite(piece.score) ? `, ${piece.score.toFixed(4)}` : null)));
}

function side(answer) {
  const { trajectory } = answer;
  const panel = (name, ...content) => element("section", { class: `panel ${name.toLowerCase()}` }, element("h3", {}, name), ...content);
  return [
    panel("Reward", ...reward(trajectory)),
    trajectory.critique === undefined ? null : panel("Critique", element("p", { class: "prose", dir: "auto" }, shown(trajectory.critique))),
    trajectory.experience?.length ? panel("Experience", ...advice(trajectory.experience)) : null,
    panel("Tokens", ...tokens(answer)),
    panel("Episode", ...episode(trajectory)),
  ].filter(Boolean);
}

function reward({ reward: earned, error }) {
  if (!earned) return [element("p", { class: "small" }, error ? "None: what something outside has spoilt is not scored." : "None: it was not scored.")];
  const widest = Math.max(...earned.terms.map((term) => Math.abs(term.weight * term.value)), Math.abs(earned.total)) || 1;
  const row = (name, how, value, kind) => {
    const bar = element("i", { class: value < 0 ? "minus" : "plus" });
    bar.style.width = `${(100 * Math.abs(value)) / widest}%`;
    return element("tr", { class: kind },
      element("th", { scope: "row" }, element("bdi", {}, shown(name)), how ? element("span", { class: "how" }, how) : null),
      element("td", {}, number(value), element("span", { class: "track", "aria-hidden": "true" }, bar)));
  };
  const terms = earned.terms.map((term) => row(term.name, `${number(term.value)} × ${number(term.weight)}`, term.value * term.weight, "term"));
  return [element("table", { class: "terms" }, element("tbody", {}, ...terms, row("total", null, earned.total, "total")))];
}

function tokens({ trajectory, policy_mask: policy, query_mask: query }) {
  const ones = (mask) => [...mask].filter((digit) => digit === "1").length;
  const silent = trajectory.spans.filter((span) => span.text && !span.tokens?.length).length;
  const bar = (name, many, kind) => {
    const fill = element("i", { class: kind });
    fill.style.width = `${policy.length ? (100 * many) / policy.length : 0}%`;
    return element("div", { class: "share" }, element("dt", {}, name), element("dd", { "data-count": String(many) }, count(many)), element("span", { class: "track", "aria-hidden": "true" }, fill));
  };
  return [
    element("dl", {}, bar("all", policy.length, "all"), bar("policy mask", ones(policy), "trained"), bar("query mask", ones(query), "query")),
    silent ? element("p", { class: "small" }, `${silent} of ${trajectory.spans.length} spans have text alone.`) : null,
  ].filter(Boolean);
}

function episode({ stop, turns, error }) {
  const invalid = turns.filter((turn) => turn.action.kind === "invalid").length;
  const lists = turns.flatMap((turn) => turn.found ?? []);
  const all = lists.flat();
  const fact = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
  return [element("dl", {},
    fact("over by", error ? "an error" : STOPS[stop] ?? "not over"),
    fact("turns", count(turns.length)),
    invalid ? fact("no action", count(invalid)) : null,
    fact("queries searched", count(lists.length)),
    fact("passages shown", `${count(all.filter((one) => one.shown).length)} of ${count(all.length)}`))];
}

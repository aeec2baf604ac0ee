// Small parts that the list and the single trajectory share.

import { element } from "./common.js";

/** Why an episode is over, in a word or two. */
export const STOPS = { answer: "answer", end: "ended", turns: "no turns left", context: "context full" };

export const count = (value) => value.toLocaleString("en");

/** A number with up to four digits behind the point. */
export const number = (value) => (Number.isFinite(value) ? value.toLocaleString("en", { maximumFractionDigits: 4 }) : String(value));

/** The total reward; nothing where there is none. */
export function rewardBadge(total) {
  if (total === null || total === undefined) return element("span", { class: "badge none" }, "none");
  return element("span", { class: `badge ${total > 0 ? "good" : total < 0 ? "bad" : "zero"}` }, number(total));
}

export function stopBadge(stop, error) {
  if (error) return element("span", { class: "badge bad" }, "error");
  return element("span", { class: `badge stop-${stop ?? "none"}` }, STOPS[stop] ?? "not over");
}

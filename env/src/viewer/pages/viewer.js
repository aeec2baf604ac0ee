// Shows what the address asks for: the list, or a single trajectory.

import { address, asked } from "./address.js";
import { call, element, Failure, shown, shownText } from "./common.js";
import { drawDetail } from "./detail.js";
import { drawList, setUpFilters, showFilters } from "./list.js";

const FILTERS = ["text", "task", "stop", "least", "most", "error", "critique", "sort", "descending"];
const at = (id) => document.getElementById(id);
let running = null; // the AbortController of the request under way
let current = null; // what is shown: the answer to the last request

/** Goes there. `replace` leaves no trace for the way back, as while somebody types. */
export function go(change, { replace = false } = {}) {
  const next = address(change);
  if (next !== (location.search || "?")) history[replace ? "replaceState" : "pushState"](null, "", next === "?" ? "./" : next);
  return show();
}

/** Of the address what the server knows. */
function filters(wanted) {
  return new URLSearchParams(FILTERS.filter((name) => name in wanted).map((name) => [name, wanted[name]]));
}

/** Shows what the address asks for. */
async function show() {
  const wanted = asked();
  running?.abort();
  const mine = (running = new AbortController());
  busy(true);
  try {
    const query = filters(wanted);
    const single = /^\d{1,15}$/.test(wanted.line ?? "");
    if (!single && wanted.offset) query.set("offset", wanted.offset);
    const answer = await call(`api/trajectories${single ? `/${wanted.line}` : ""}?${query}`, { signal: mine.signal });
    if (mine !== running) return;
    draw(wanted, single, answer);
  } catch (error) {
    if (mine !== running || error.name === "AbortError") return;
    fail(error instanceof Failure ? error : new Failure({ code: "page", message: String(error) }));
  }
}

function draw(wanted, single, answer) {
  const moved = current?.single !== single || (single && current.answer.line !== answer.line);
  current = { wanted, single, answer };
  busy(false);
  at("failure").hidden = true;
  at("list").hidden = single;
  at("detail").hidden = !single;
  at("file").replaceChildren(shown(answer.file));
  if (single) {
    drawDetail(at("detail"), answer, wanted);
    document.title = `${shownText(answer.trajectory.question.slice(0, 80))} · hindsearch`;
  } else {
    drawList(answer, wanted);
    showFilters(wanted);
    document.title = `${shownText(answer.file)} · hindsearch`;
  }
  if (moved) scrollTo(0, 0);
}

function fail(failure) {
  busy(false);
  const again = element("button", { type: "button" }, "Try again");
  const all = element("a", { href: "./" }, "Show all");
  again.addEventListener("click", show);
  at("failure").replaceChildren(
    element("p", { class: "code" }, shown(failure.code), failure.status ? ` (${failure.status})` : ""),
    element("p", { dir: "auto" }, shown(failure.message)),
    element("p", { class: "row" }, again, all));
  at("failure").hidden = false;
}

function busy(yes) {
  at("progress").hidden = !yes;
  document.body.classList.toggle("busy", yes);
}

/** The next or the previous one: of the list a row gets the focus, of single ones the neighbour is shown. */
function step(by) {
  if (!current) return;
  if (current.single) {
    const line = by > 0 ? current.answer.place.next : current.answer.place.previous;
    if (line !== null) go({ line });
    return;
  }
  const links = [...at("rows").querySelectorAll("a")];
  const focused = links.indexOf(document.activeElement);
  links[Math.min(links.length - 1, Math.max(0, focused + by))]?.focus();
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  ArrowRight: () => current?.single && step(1),
  ArrowLeft: () => current?.single && step(-1),
  Escape: () => current?.single && go({ line: null, mask: null, raw: null }),
  "/": () => !current?.single && at("text").focus(),
  m: () => current?.single && go({ mask: current.wanted.mask ? null : "1" }, { replace: true }),
  r: () => current?.single && go({ raw: current.wanted.raw ? null : "1" }, { replace: true }),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (!Object.hasOwn(KEYS, event.key)) return;
  if (event.key !== "Escape") event.preventDefault();
  KEYS[event.key]();
});

// Links within the page ask for no new page.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-change]");
  if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(JSON.parse(link.dataset.change), { replace: "replaces" in link.dataset });
});

at("reload").addEventListener("click", show);
at("keys-button").addEventListener("click", () => {
  at("keys").hidden = !at("keys").hidden;
  at("keys-button").setAttribute("aria-expanded", !at("keys").hidden);
});
addEventListener("popstate", show);
setUpFilters(go);
show();

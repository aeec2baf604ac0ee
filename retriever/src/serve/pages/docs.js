// The API page: every operation of openapi.json, by tag, with schemas, an example, a curl line, and a box to try it.

import { call, cut, element, prose, shown, token } from "./common.js";
import { example, resolve, tree } from "./schema.js";

const METHODS = ["get", "post", "put", "patch", "delete", "head", "options"];
const SHOWN = 200_000; // characters of an answer that are kept and drawn
const at = (id) => document.getElementById(id);

/** One element for each paragraph. */
function paragraphs(text, attributes = {}) {
  const parts = String(text ?? "").split(/\n\s*\n/).filter((part) => part.trim());
  return parts.map((part) => element("p", attributes, prose(part.replace(/\n/g, " "))));
}

const isText = (type) => /json|text/.test(type);

/** A media type's own example, or one made from its schema, as text for a person to edit. */
function exampleOf(api, type, media) {
  const named = media.examples ? resolve(api, Object.values(media.examples)[0]).value : undefined;
  const value = media.example ?? named ?? example(api, media.schema ?? {});
  return typeof value === "string" && !/json/.test(type) ? value : JSON.stringify(value, null, 2);
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** The curl line that does what the box does. */
function curl({ method, path, headers, body }, secured) {
  const words = ["curl", "-sS"];
  if (method !== (body === null ? "GET" : "POST")) words.push("-X", method);
  words.push(quoted(new URL(path, document.baseURI).href));
  for (const [name, value] of Object.entries(headers)) words.push("-H", quoted(`${name}: ${value}`));
  if (secured || token.get()) words.push("-H", '"Authorization: Bearer $HINDSEARCH_TOKEN"');
  if (body !== null) words.push("-d", quoted(body));
  return words.join(" ");
}

function copyable(text) {
  const pre = element("pre", {}, text);
  const button = element("button", { type: "button", class: "quiet" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(pre); // No clipboard over plain HTTP: the text is selected for the reader's own keys.
    }
  });
  return { node: element("div", { class: "copyable" }, pre, button), pre };
}

/** Input fields for parameters and body; `request()` reads them. */
function inputs(api, operation) {
  const { method, path, parameters, media, id } = operation;
  const fields = parameters.map((parameter, place) => {
    const given = parameter.example ?? parameter.schema?.example ?? (parameter.in === "path" ? example(api, parameter.schema ?? {}) : "");
    const input = element("input", { id: `${id}-${place}`, value: String(given), autocomplete: "off", spellcheck: "false" });
    return { parameter, input, node: element("div", {}, element("label", { for: input.id }, `${parameter.name} (${parameter.in})`), input) };
  });
  const types = Object.keys(media).filter(isText);
  const select = types.length > 1 ? element("select", { id: `${id}-type` }, ...types.map((type) => element("option", { value: type }, type))) : null;
  const body = types.length ? element("textarea", { id: `${id}-body`, spellcheck: "false" }, exampleOf(api, types[0], media[types[0]])) : null;
  select?.addEventListener("change", () => { body.value = exampleOf(api, select.value, media[select.value]); });
  const request = () => {
    let filled = path;
    const query = new URLSearchParams();
    const headers = {};
    for (const { parameter, input } of fields) {
      if (parameter.in === "path") filled = filled.replaceAll(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (input.value === "") continue;
      else if (parameter.in === "query") query.append(parameter.name, input.value);
      else if (parameter.in === "header") headers[parameter.name] = input.value;
    }
    if (body) headers["Content-Type"] = select?.value ?? types[0];
    // Relative, so that the page works below a proxy's prefix too.
    return { method: method.toUpperCase(), path: filled.replace(/^\//, "") + (query.size ? `?${query}` : ""), headers, body: body ? body.value : null };
  };
  const nodes = fields.map(({ node }) => node);
  if (select) nodes.push(element("div", {}, element("label", { for: select.id }, "Content type"), select));
  if (body) nodes.push(element("div", {}, element("label", { for: body.id }, "Body"), body));
  return { nodes, request };
}

/** Sends what the box holds and draws the answer as text, as it comes. */
async function send({ method, path, headers, body }, output, signal) {
  const began = performance.now();
  const all = token.get() ? { ...headers, Authorization: `Bearer ${token.get()}` } : headers;
  const response = await fetch(path, { method, headers: all, body: body ?? undefined, signal, cache: "no-store", credentials: "omit" });
  const type = response.headers.get("content-type") ?? "";
  const head = [`${response.status} ${response.statusText}`.trim(), type, ["x-request-id", "retry-after"].map((name) => response.headers.get(name) && `${name}: ${response.headers.get(name)}`)];
  const line = (size) => [...head.flat(), `${size.toLocaleString("en")} bytes`, `${(performance.now() - began).toFixed(1)} ms`].filter(Boolean).join(" · ");
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for (const reader = response.body?.getReader(); reader;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (isText(type) && text.length <= SHOWN) text += decoder.decode(value, { stream: true });
    if (type.includes("event-stream")) draw(output, line(size), text);
  }
  if (/json/.test(type)) {
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // Shown as it came.
    }
  }
  draw(output, line(size), isText(type) ? text : "(not text)");
}

function draw(output, head, text) {
  const tail = text.length > SHOWN ? "\n… (more was sent than is shown)" : "";
  output.replaceChildren(element("p", { class: "small" }, shown(head)), text ? element("pre", { tabindex: "0" }, shown(cut(text, SHOWN)), tail) : "");
}

function tryIt(api, operation) {
  const { nodes, request } = inputs(api, operation);
  const line = copyable(curl(request(), operation.secured));
  const output = element("div", { class: "answer", "aria-live": "polite" });
  const button = element("button", { type: "submit" }, "Send");
  const stop = element("button", { type: "button", class: "quiet", hidden: true }, "Stop");
  const form = element("form", { class: "try" }, ...nodes, element("div", { class: "row" }, button, stop));
  let running = null;
  const refresh = () => { line.pre.textContent = curl(request(), operation.secured); };
  form.addEventListener("input", refresh);
  form.addEventListener("change", refresh);
  stop.addEventListener("click", () => running?.abort());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    running?.abort();
    const mine = (running = new AbortController());
    stop.hidden = false;
    try {
      await send(request(), output, mine.signal);
    } catch (error) {
      if (mine === running) draw(output, mine.signal.aborted ? "Stopped" : `No answer: ${error.message}`, "");
    }
    if (mine === running) stop.hidden = true;
  });
  return [element("h3", {}, "curl"), line.node, element("h3", {}, "Try it"), form, output];
}

function answers(api, responses) {
  return Object.entries(responses ?? {}).map(([status, reference]) => {
    const response = resolve(api, reference);
    const media = Object.entries(response.content ?? {});
    const parts = media.flatMap(([type, value]) => [
      element("p", { class: "small" }, shown(type)),
      value.schema ? tree(api, value.schema) : null,
      isText(type) && (value.example !== undefined || value.examples) ? element("pre", { tabindex: "0" }, shown(exampleOf(api, type, value))) : null,
    ]);
    return element("details", { class: "response", open: status.startsWith("2") },
      element("summary", {}, element("code", { class: "name" }, status), " ", shown(response.description ?? "")), ...parts);
  });
}

/** Everything below an operation's line; made when it is first opened. */
function details(api, operation) {
  const { parameters, media, raw } = operation;
  const words = paragraphs(raw.description);
  const left = [];
  if (parameters.length) {
    const schema = {
      type: "object",
      properties: Object.fromEntries(parameters.map((parameter) => [parameter.name, { ...resolve(api, parameter.schema ?? {}), description: [`in ${parameter.in}`, parameter.description].filter(Boolean).join(": ") }])),
      required: parameters.filter((parameter) => parameter.required).map((parameter) => parameter.name),
    };
    left.push(element("h3", {}, "Parameters"), tree(api, schema));
  }
  for (const [type, value] of Object.entries(media)) {
    left.push(element("h3", {}, `Request body, ${type}`), value.schema ? tree(api, value.schema) : "");
  }
  left.push(element("h3", {}, "Answers"), ...answers(api, raw.responses));
  return element("div", { class: "body" }, words.length ? element("div", { class: "wide" }, element("h3", {}, "What it does"), ...words) : null,
    element("div", {}, ...left), element("div", {}, ...tryIt(api, operation)));
}

/** The operations of the document, flat. */
function operations(api) {
  return Object.entries(api.paths ?? {}).flatMap(([path, item]) => METHODS.filter((method) => item[method]).map((method) => {
    const raw = item[method];
    const parameters = [...(item.parameters ?? []), ...(raw.parameters ?? [])].map((parameter) => resolve(api, parameter));
    const security = raw.security ?? api.security ?? [];
    const id = `${method}${path}`.replace(/[^A-Za-z0-9]+/g, "-").replace(/-$/, "");
    return { path, method, raw, id, parameters, media: resolve(api, raw.requestBody ?? {}).content ?? {}, secured: security.length > 0 && security.every((one) => Object.keys(one).length > 0), tag: raw.tags?.[0] ?? "Other" };
  }));
}

function entry(api, operation) {
  const { method, path, raw, id } = operation;
  const node = element("details", { class: "operation", id, "data-path": path },
    element("summary", {}, element("span", { class: "method" }, method.toUpperCase()), element("code", { class: "path" }, shown(path)),
      element("span", { class: "about small" }, prose(raw.summary ?? ""), raw.deprecated ? " (deprecated)" : "")));
  node.addEventListener("toggle", () => {
    if (node.open && node.children.length === 1) node.append(details(api, operation));
  });
  return node;
}

function openNamed() {
  const node = at(decodeURIComponent(location.hash.slice(1)));
  if (node?.classList.contains("operation")) {
    node.open = true;
    node.scrollIntoView();
  }
}

async function load() {
  const api = await call("openapi.json");
  const all = operations(api);
  at("title").replaceChildren(shown(`${api.info?.title ?? "API"} ${api.info?.version ?? ""}`.trim()));
  at("description").replaceChildren(...paragraphs(api.info?.description));
  const told = new Map((api.tags ?? []).map(({ name, description }) => [name, description]));
  const tags = [...new Set([...told.keys(), ...all.map(({ tag }) => tag)])];
  const sections = tags.map((tag) => [tag, all.filter((operation) => operation.tag === tag)]).filter(([, some]) => some.length);
  at("operations").replaceChildren(...sections.map(([tag, some]) => element("section", { class: "tag" },
    element("h2", {}, shown(tag)), ...paragraphs(told.get(tag), { class: "small" }), ...some.map((operation) => entry(api, operation)))));
  const narrow = () => {
    const wanted = at("filter").value.trim().toLowerCase();
    const nodes = [...document.querySelectorAll(".operation")];
    for (const node of nodes) node.hidden = !node.firstChild.textContent.toLowerCase().includes(wanted);
    for (const section of document.querySelectorAll(".tag")) section.hidden = !section.querySelector(".operation:not([hidden])");
    const count = nodes.filter((node) => !node.hidden).length;
    at("count").textContent = `${count} of ${nodes.length} operations`;
  };
  at("filter").addEventListener("input", narrow);
  narrow();
  openNamed();
}

at("token").value = token.get();
at("settings").addEventListener("submit", (event) => event.preventDefault());
at("token").addEventListener("change", () => {
  token.set(at("token").value);
  if (!at("failure").hidden) start();
});
window.addEventListener("hashchange", openNamed);

async function start() {
  at("failure").hidden = true;
  try {
    await load();
  } catch (failure) {
    at("count").textContent = "";
    at("failure").hidden = false;
    at("failure").replaceChildren(element("p", { class: "code" }, shown(failure.code ?? "page")), element("p", {}, shown(failure.message)));
    if (failure.status === 401) at("token").focus();
  }
}
start();

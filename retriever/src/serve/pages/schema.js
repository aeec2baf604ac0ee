// JSON Schema, as OpenAPI 3.1 uses it, for people: a tree of fields, and an example made from it.

import { element, prose, shown } from "./common.js";

/** Follows a local `$ref` (`#/components/schemas/Hit`); anything else comes back as it is. */
export function resolve(document, value) {
  let found = value;
  for (let hops = 0; found?.$ref && hops < 16; hops += 1) {
    const steps = String(found.$ref).replace(/^#\//, "").split("/").map((step) => step.replace(/~1/g, "/").replace(/~0/g, "~"));
    found = steps.reduce((place, step) => (place && Object.hasOwn(place, step) ? place[step] : undefined), document);
  }
  return found ?? {};
}

const referenceOf = (schema) => schema?.$ref?.split("/").pop();
const nameOf = (schema) => referenceOf(schema) ?? schema?.title;

/** `allOf` folded into one schema, so that the rest sees a single object. */
function folded(document, schema) {
  const found = resolve(document, schema);
  if (!Array.isArray(found.allOf)) return found;
  return found.allOf.map((part) => folded(document, part)).concat([{ ...found, allOf: undefined }]).reduce((whole, part) => ({
    ...whole, ...part,
    properties: { ...whole.properties, ...part.properties },
    required: [...(whole.required ?? []), ...(part.required ?? [])],
  }), {});
}

const choices = (schema) => schema.oneOf ?? schema.anyOf ?? null;

/** A type in a few words: `integer`, `array of Hit`, `string or null`. */
function typeOf(document, schema) {
  const found = folded(document, schema);
  if (found.const !== undefined) return JSON.stringify(found.const);
  if (found.enum) return found.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (choices(found)) return choices(found).map((choice) => typeOf(document, choice)).join(" or ");
  const types = [found.type ?? (found.properties ? "object" : "any")].flat();
  return types.map((type) => {
    if (type === "array") return `array of ${found.items ? typeOf(document, found.items) : "any"}`;
    return type === "object" ? nameOf(schema) ?? "object" : type;
  }).join(" or ");
}

const LIMITS = { minimum: "at least", maximum: "at most", minLength: "characters ≥", maxLength: "characters ≤", minItems: "items ≥", maxItems: "items ≤", pattern: "matches" };

function note(schema) {
  const limits = Object.entries(LIMITS).filter(([key]) => schema[key]).map(([key, words]) => `${words} ${schema[key]}`);
  if ((schema.default ?? null) !== null) limits.push(`default ${JSON.stringify(schema.default)}`);
  return [schema.description, limits.join(", ")].filter(Boolean).join(" · ");
}

/** What lies below a schema: its fields, those of its items, or of its choices. */
function below(document, schema, seen) {
  const found = folded(document, schema);
  const name = referenceOf(schema);
  if ((name && seen.includes(name)) || seen.length > 12) return null;
  const deeper = [...seen, name ?? ""];
  const lines = Object.entries(found.properties ?? {}).map(([key, value]) => line(document, key, value, (found.required ?? []).includes(key), deeper));
  if (found.additionalProperties && typeof found.additionalProperties === "object") {
    lines.push(line(document, "any other key", found.additionalProperties, false, deeper));
  }
  if (lines.length) return element("ul", {}, ...lines);
  const inner = found.items ?? (choices(found)?.length === 1 ? choices(found)[0] : null);
  if (inner) return below(document, inner, deeper);
  const parts = (choices(found) ?? []).filter((choice) => below(document, choice, deeper));
  if (parts.length === 0) return null;
  if (parts.length === 1) return below(document, parts[0], deeper);
  return element("ul", {}, ...parts.map((choice) => line(document, nameOf(choice) ?? "either", choice, false, deeper)));
}

function line(document, name, schema, must, seen) {
  const found = folded(document, schema);
  const words = note(found);
  return element("li", {},
    element("code", { class: "name" }, shown(name)), " ",
    element("span", { class: "type" }, shown(typeOf(document, schema))),
    must ? element("span", { class: "must" }, " required") : null,
    words ? element("span", { class: "note" }, " ", prose(words)) : null,
    below(document, schema, seen));
}

/** The tree of a schema. */
export function tree(document, schema) {
  const found = folded(document, schema);
  const words = note(found);
  return element("div", { class: "schema" },
    element("p", { class: "small" }, element("span", { class: "type" }, shown(nameOf(schema) ?? typeOf(document, schema))), words ? prose(` ${words}`) : null),
    below(document, schema, []));
}

/** A value that fits the schema: its own example where it has one. */
export function example(document, schema, depth = 0) {
  const found = folded(document, schema);
  const given = found.example ?? (Array.isArray(found.examples) ? found.examples[0] : undefined) ?? found.default ?? found.const ?? found.enum?.[0];
  if (given !== undefined) return given;
  if (depth > 6) return null;
  if (choices(found)) {
    const real = choices(found).filter((choice) => resolve(document, choice).type !== "null");
    return example(document, real[0] ?? {}, depth + 1);
  }
  const type = [found.type ?? (found.properties ? "object" : "string")].flat().find((one) => one !== "null");
  if (type === "object") {
    const all = Object.keys(found.properties ?? {});
    // Where nothing is required, one field is the safest guess: often exactly one of several is wanted.
    const keys = found.required?.length ? all.filter((key) => found.required.includes(key)) : all.includes("query") ? ["query"] : all.slice(0, 1);
    return Object.fromEntries(keys.map((key) => [key, example(document, found.properties[key], depth + 1)]));
  }
  if (type === "array") return [example(document, found.items ?? {}, depth + 1)];
  if (type === "integer") return found.minimum ?? 0;
  if (type === "number") return found.minimum ?? 0.5;
  return type === "boolean" ? false : type === "null" ? null : "text";
}

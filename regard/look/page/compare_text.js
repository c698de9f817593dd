// One text for each model, tinted by bits per character. The scale is the same for all, so that columns compare.
import { element, num } from "./dom.js";
import { colourOf, css, inkOn, shadeOf } from "./colours.js";

/** The letter by which a model goes in tables and curves. */
export const compareMark = at => element("span", { className: "compare-mark", "aria-hidden": "true" }, "ABCD"[at]);

/** What the server told, made ready: names, bits of every character, the common scale, and which tokens are where. */
export function compareReady(told, chosen) {
  const models = told.models.map((model, at) => {
    const text = told.kind === "text" ? told.text : model.text;
    return { ...model, name: chosen[at].name, family: chosen[at].family, text,
        chars: [...model.per_character ?? comparePerCharacter(model.tokens, text.length)] };
  });
  const top = Math.max(1e-9, ...models.map(model => model.chars.reduce((most, bits) => Math.max(most, bits ?? 0), 0)));
  const first = models.map(model => compareIndex(model));
  return { ...told, models, top, at: (model, char) => first[model](char), meet: compareMet(told) };
}

function comparePerCharacter(tokens, length) {
  const bits = new Float64Array(length);
  for (const [, start, end, own] of tokens) for (let at = start; at < end; at++) bits[at] += (own ?? Infinity) / (end - start);
  return bits;
}

/** The tokens that stand for a character; between two tokens, the one that comes next. */
function compareIndex(model) {
  const starts = model.tokens.map(([, start]) => start), ends = model.tokens.map(([, , end]) => end);
  return char => {
    let low = 0, high = ends.length;
    while (low < high) {
      const middle = low + high >> 1;
      if (ends[middle] <= char) low = middle + 1;
      else high = middle;
    }
    const found = [];
    for (let at = low; at < starts.length && (starts[at] <= char || !found.length); at++) found.push(at);
    return found.length ? found : ends.length ? [ends.length - 1] : [];
  };
}

/** For each model and token: [other model, its token] wherever both have read the same. */
function compareMet(told) {
  const order = told.models.map(model => model.id), met = told.models.map(() => new Map());
  for (const pair of told.pairs) {
    const a = order.indexOf(pair.a), b = order.indexOf(pair.b);
    for (const [, mine, theirs] of pair.at) {
      met[a].set(mine, [...met[a].get(mine) ?? [], [b, theirs]]);
      met[b].set(theirs, [...met[b].get(theirs) ?? [], [a, mine]]);
    }
  }
  return met;
}

/** {node, mark(tokens)}; `told` hears point(character), leave(), pick(character). */
export function makeCompareText(data, at, told) {
  const model = data.models[at], cuts = new Set([0, model.text.length]);
  for (const [, start, end] of model.tokens) cuts.add(start).add(end);
  const places = [...cuts].sort((a, b) => a - b), spans = new Map();
  for (let n = 0; n + 1 < places.length; n++) {
    const from = places[n], bits = model.chars[from] ?? Infinity, parts = colourOf(shadeOf(Math.min(bits, data.top), data.top));
    const span = element("span", {}, model.text.slice(from, places[n + 1]));
    span.dataset.at = from;
    span.dataset.bits = bits;
    span.style.setProperty("background", css(parts));
    span.style.setProperty("color", inkOn(parts));
    spans.set(from, span);
  }
  const body = element("div", { className: "compare-text", dir: "auto", tabIndex: 0, role: "group",
      "aria-label": `Text as ${model.name} reads it; left and right move by its tokens` }, ...spans.values());
  const place = event => event.target.dataset.at === undefined ? null : +event.target.dataset.at;
  body.onpointerover = event => place(event) !== null && told.point(place(event));
  body.onpointerleave = () => told.leave();
  body.onclick = event => place(event) !== null && told.pick(place(event));
  let marked = [];
  return {
    node: element("article", { className: "compare-column" },
        element("h3", {}, compareMark(at), model.name, element("small", {}, model.family)), body),
    mark(tokens) {
      for (const span of marked) span.classList.remove("here");
      marked = [];
      for (const token of tokens) {
        const [, start, end] = model.tokens[token];
        for (let from = start; from < Math.max(end, start + 1); from++) if (spans.has(from)) marked.push(spans.get(from));
      }
      for (const span of marked) span.classList.add("here");
    },
  };
}

export function compareLegend(top) {
  const canvas = element("canvas", { width: 160, height: 10, "aria-hidden": "true" }), pen = canvas.getContext("2d");
  for (let x = 0; x < 160; x++) {
    pen.fillStyle = css(colourOf(Math.sqrt(x / 159)));
    pen.fillRect(x, 0, 1, 10);
  }
  return element("p", { className: "note compare-legend" }, "tint: 0", canvas, `${num(top)} bits per character, the same for all`);
}

// How far apart two models are along the text: the Jensen-Shannon distance of what they expect, a line for each pair.
import { drawn, element, num } from "./dom.js";
import { DASHES, seriesColour } from "./colours.js";

const CURVE_TALL = 120, CURVE_LEFT = 34, CURVE_RIGHT = 54, CURVE_TOP = 8;

/** The elements; data.curveX gives the place of a character from then on. */
export function compareCurve(data, room) {
  const pairs = data.pairs.filter(pair => pair.js);
  data.curveX = undefined;
  if (!pairs.length) return [];
  const width = Math.max(320, room - 4), length = Math.max(1, data.text.length), order = data.models.map(model => model.id);
  const x = char => CURVE_LEFT + (width - CURVE_LEFT - CURVE_RIGHT) * char / length, y = value => CURVE_TOP + (1 - value) * CURVE_TALL;
  data.curveX = char => x(char + .5);
  const letters = pair => [pair.a, pair.b].map(id => "ABCD"[order.indexOf(id)]).join("–");
  const lines = pairs.map((pair, at) => drawn("path",
      { fill: "none", stroke: seriesColour(at), "stroke-width": 2, "stroke-dasharray": DASHES[at].join(" "),
    d: pair.at.map(([char], n) => `${n ? "L" : "M"}${x(char).toFixed(1)} ${y(pair.js[n]).toFixed(1)}`).join("") }));
  const ends = compareApart(pairs.map(pair => y(pair.js.at(-1))));
  const names = pairs.map((pair, at) => drawn("text", { x: width - CURVE_RIGHT + 6, y: ends[at] + 4, fill: seriesColour(at) },
      letters(pair)));
  const grid = [0, .5, 1].flatMap(value =>
      [drawn("line", { class: "grid", x1: CURVE_LEFT, x2: width - CURVE_RIGHT, y1: y(value), y2: y(value) }),
    drawn("text", { class: "axis", x: CURVE_LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(value))]);
  const here = drawn("line", { class: "compare-here off", x1: 0, x2: 0, y1: CURVE_TOP, y2: CURVE_TOP + CURVE_TALL });
  const told = pairs.map(pair => compareTold(data, pair, letters(pair))).join(" ");
  return [element("h2", {}, "Distance along the text"),
    drawn("svg", { width, height: CURVE_TALL + 2 * CURVE_TOP + 4, role: "img",
        "aria-label": `Jensen–Shannon distance along the text. ${told}` }, ...grid, ...lines, ...names, here),
    element("p", { className: "note" }, `Jensen–Shannon distance of what both expect next: 0, the same; 1, nothing in common. ${told}`)];
}

function compareTold(data, pair, name) {
  const most = pair.js.reduce((best, value, at) => value > pair.js[best] ? at : best, 0);
  const [char] = pair.at[most], around = data.text.slice(Math.max(0, char - 12), char + 12).replace(/\s+/g, " ");
  return `${name}: mean ${num(pair.js.reduce((sum, value) => sum + value, 0) / pair.js.length)}, most ${num(pair.js[most])} near “${around}”.`;
}

/** Labels that do not stand on one another. */
function compareApart(places) {
  const order = places.map((_, at) => at).sort((a, b) => places[a] - places[b]), found = [...places];
  order.forEach((at, n) => { if (n) found[at] = Math.max(found[at], found[order[n - 1]] + 14); });
  return found;
}

// How quantities are drawn: vectors as strips of numbered cells, rows of attention as a table by column, and the
// arithmetic of the selected entry written out with its numbers.
import { element, label, num, upTo } from "./dom.js";
import { colourOf, css, inkOn, shadeOf } from "./colours.js";

const MOST_CELLS = 256, MOST_ROWS = 60, AROUND = 8;
const computeTop = data => data.reduce((top, value) => Number.isFinite(value) ? Math.max(top, Math.abs(value)) : top, 0) || 1;
const computeSigned = data => data.some(value => value < 0);
const computeNum = (quantity, at) => quantity.exact?.length ? quantity.exact[at].replace("-", "−") : computeFigure(quantity.data[at]);

/** Four digits, whole numbers as they are, small ones with three that count. */
export function computeFigure(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value).replace("-", "−");
  return size >= 1e-4 && size < 0.1 ? String(value.toPrecision(3)).replace("-", "−") : num(value, 4);
}

/** A cell's colours by its share of the strongest; −∞ is hatched. */
function computePaint(made, value, top, signed) {
  if (value === -Infinity) return made.classList.add("hidden-score");
  const parts = colourOf(shadeOf(value, top), signed);
  made.style.setProperty("background", css(parts));
  made.style.setProperty("color", inkOn(parts));
}

function computeHead(quantity) {
  const checked = quantity.checked && element("span",
      { className: "note",
      title: "what this browser finds in float64 and what PyTorch has; above 1, as a share of it" }, `differs by ${computeTiny(quantity.difference)}`);
  return element("p", { className: "quantity" }, element("b", {}, quantity.symbol), element("span", {}, quantity.about), checked);
}

export const computeTiny = value => value === 0 ? "0" : value.toExponential(0).replace("-", "−");

/** A vector: numbered cells, in colours by size and sign. */
export function computeStrip(quantity, names) {
  const { data } = quantity, top = computeTop(data), signed = computeSigned(data), shown = Math.min(data.length, MOST_CELLS);
  const cells = upTo(shown).map(at => {
    const cell = element("li", { title: names?.[at] ?? "" }, element("small", {}, String(at + 1)), computeNum(quantity, at));
    computePaint(cell, data[at], top, signed);
    return cell;
  });
  const more = data.length > shown && element("p", { className: "note" }, `and ${(data.length - shown).toLocaleString("en")} more`);
  return element("div", { className: "vector" }, computeHead(quantity),
      element("ol", { className: "strip", "aria-label": quantity.symbol }, cells), more);
}

export function computeScalar(quantity, line) {
  return element("div", { className: "vector" }, computeHead(quantity),
    element("p", { className: "line" }, line ? `${line} = ` : "", element("output", {}, computeNum(quantity, 0))));
}

/** The columns to show of a long row: those around the selected one, and the largest. */
export function computeChosen(size, selected, by) {
  if (size <= MOST_ROWS) return upTo(size);
  const near = upTo(size).filter(at => Math.abs(at - selected) <= AROUND);
  const large = upTo(size).sort((a, b) => Math.abs(by?.[b] ?? 0) - Math.abs(by?.[a] ?? 0)).slice(0, MOST_ROWS - near.length);
  return [...new Set([...near, ...large])].sort((a, b) => a - b);
}

/** Quantities that have a number for every column (or order), side by side; weights with bars. */
export function computeTable(quantities, names, selected, pick, kind = "column") {
  const last = quantities[quantities.length - 1], rows = computeChosen(names.length, selected, last.data);
  const tops = quantities.map(each => computeTop(each.data));
  const body = rows.map(at => element("tr", { "aria-current": at === selected ? "true" : undefined },
    element("th", { scope: "row" }, pick ? element("button", { type: "button", title: `select column ${at}`, onclick: () => pick(at) },
        element("small", {}, String(at)), element("bdi", {}, label(names[at]))) : element("bdi", {}, names[at])),
    quantities.map((each, index) => computeCell(each, at, tops[index]))));
  const head = element("tr", {}, element("th", { scope: "col" }, kind),
      quantities.map(each => element("th", { scope: "col", className: "number", title: each.about }, each.symbol)));
  const hidden = names.length - rows.length;
  return element("div", { className: "vector" }, quantities.map(computeHead),
    element("div", { className: "scroll table", tabIndex: 0, role: "region", "aria-label": `by ${kind}` },
      element("table", {}, element("thead", {}, head), element("tbody", {}, body))),
    hidden > 0 && element("p", { className: "note" }, `${hidden.toLocaleString("en")} columns of smaller amounts are not shown`));
}

function computeCell(quantity, at, top) {
  const value = quantity.data[at], cell = element("td", { className: "number" }, computeNum(quantity, at));
  if (["alpha", "kernel", "share", "parts"].includes(quantity.name)) {
    const bar = element("i", { className: value < 0 ? "meter below" : "meter", hidden: value === 0 });
    bar.style.setProperty("--share", Math.abs(value) / top);
    cell.prepend(bar);
    cell.classList.add("barred");
  } else computePaint(cell, value, top, computeSigned(quantity.data));
  return cell;
}

/** A vector for every column, as rows of colours. */
export function computeRows(quantity, names, selected, pick) {
  const width = quantity.shape[1], rows = computeChosen(names.length,
      selected), top = computeTop(quantity.data), signed = computeSigned(quantity.data);
  const body = rows.map(at => element("tr", { "aria-current": at === selected ? "true" : undefined },
    element("th", { scope: "row" }, element("button", { type: "button", title: `select column ${at}`, onclick: () => pick(at) },
        element("small", {}, String(at)), element("bdi", {}, label(names[at])))),
    element("td", {}, computeRibbon(quantity.data.subarray(at * width, (at + 1) * width), top, signed,
        `${quantity.symbol} of column ${at}`))));
  return element("div", { className: "vector" }, computeHead(quantity),
    element("div", { className: "scroll table", tabIndex: 0, role: "region", "aria-label": quantity.about },
        element("table", { className: "ribbons" }, element("tbody", {}, body))),
    rows.length < names.length && element("p", { className: "note" }, `${names.length - rows.length} columns are not shown`));
}

function computeRibbon(values, top, signed, about) {
  const canvas = element("canvas", { width: values.length, height: 1, className: "ribbon", role: "img", "aria-label": about });
  const pen = canvas.getContext("2d");
  values.forEach((value, at) => {
    pen.fillStyle = css(colourOf(shadeOf(value, top), signed));
    pen.fillRect(at, 0, 1, 1);
  });
  canvas.style.setProperty("width", `${Math.min(640, values.length * 12)}px`);
  return canvas;
}

// ---- the selected entry, with numbers in the place of letters

const computeTerms = (values, join) => {
  const shown = Array.from(values.slice(0, 6), value => computeFigure(value));
  return shown.join(join).replaceAll("+ −", "− ") + (values.length > 6 ? `${join}… ${values.length - 6} more` : "");
};

const COMPUTE_LINES = {
  sum: x => computeTerms(x.data, " + "),
  mean: x => `(${computeTerms(x.data, " + ")}) / ${x.data.length}`,
  norm: x => `√(${computeTerms(x.data, "² + ")}²)`,
  times: (x, y) => `${x} × ${y}`, plus: (x, y) => `${x} + ${y}`.replace("+ −", "− "), minus: (x, y) =>
      `${x} − ${y}`.replace("− −", "+ "), over: (x, y) => `${x} / ${y}`,
  scale: (x, how) => `${x} × ${num(how.by, 5)}`,
  softcap: (x, how) => `${how.at} tanh(${x} / ${how.at})`,
  tanh: x => `tanh(${x})`, exp: x => `exp(${x})`,
  power: (x, top, how) => `${how.base ? `${how.base}^` : "exp"}(${x} − ${top})`.replace("− −", "+ "),
  share: (x, total) => `${x} / ${total}`,
  largest: x => `max(${computeTerms(x.data, ", ")})`,
};

/** How one entry follows from others: `0.25 × 1.5`; nothing where there is no short way to say it. */
export function computeLine(quantity, found, at) {
  const write = COMPUTE_LINES[quantity.op];
  if (!write) return "";
  const whole = ["sum", "mean", "norm", "largest"].includes(quantity.op);
  const entries = quantity.of.map(name => whole ? found[name] : computeFigure(found[name].data[found[name].shape.length ? at : 0]));
  return write(...entries, quantity.how);
}

// What each model expected at a place: its token there, the bits it cost, and the ten likeliest with those in common.
import { element, label, num, percent, quoted } from "./dom.js";
import { compareMark } from "./compare_text.js";

const compareMean = values => values.reduce((sum, value) => sum + value, 0) / values.length;

export function compareDetail(data, spans, char) {
  if (!spans.some(tokens => tokens.length)) return [element("p", { className: "note" },
      "Point at the text, or move with the left and right keys, to see what each model expected there.")];
  const columns = data.models.map((model, at) => spans[at].length ? compareTokens(data, at, spans[at]) : null).filter(Boolean);
  const note = data.pairs.length
      ? [element("p", { className: "note" }, "Letters mark a token that those models have among their ten too, having read the same.")]
      : [];
  return [element("div", { className: "compare-expected" }, columns), ...note];
}

/** The tokens at a place; the list is of the first, as the others follow inside the same characters. */
function compareTokens(data, at, tokens) {
  const model = data.models[at], [first] = tokens;
  const bits = tokens.map(token => model.tokens[token]).map(([piece, , , own]) => element("p", { className: "compare-token" },
    quoted(piece), ` ${own === null ? "∞" : num(own)} bits`, element("small", {}, ` p ${own === null ? "0" : num(2 ** -own)}`)));
  const others = (data.meet[at].get(first) ?? []).map(([other, token]) =>
      [other, new Set(data.models[other].tokens[token][4].map(([, piece]) => piece))]);
  const own = model.tokens[first][0], rows = model.tokens[first][4].map(([, piece, p]) => {
    const shared = others.filter(([, pieces]) => pieces.has(piece)).map(([other]) => other);
    const bar = element("i", { className: "compare-bar" });
    bar.style.setProperty("width", `${Math.max(1, 100 * p)}%`);
    return element("tr", { className: piece === own || piece === ` ${own}` ? "own" : "" }, element("th", { scope: "row" }, label(piece)),
        element("td", { className: "number" }, percent(p)),
      element("td", { className: "compare-bars" }, bar), element("td", { className: "compare-shared" }, shared.map(compareMark),
          shared.length ? element("span", { className: "hidden" }, ` also ${shared.map(other => data.models[other].name).join(", ")}`)
          : ""));
  });
  return element("article", {}, element("h3", {}, compareMark(at), model.name), ...bits.slice(0, 4), bits.length > 4
      ? element("p", { className: "note" }, `and ${bits.length - 4} more`) : "",
    element("table", {}, element("caption", { className: "hidden" }, `What ${model.name} expected instead of ${label(own)}`),
      element("thead", { className: "hidden" }, element("tr", {},
          ["token", "probability", "bar", "also expected by"].map(name =>
          element("th", { scope: "col" }, name)))), element("tbody", {}, rows)));
}

/** Two models at a time: how much their ten likeliest have in common, and how far their distributions are apart. */
export function compareMeetings(data) {
  const name = id => data.models.findIndex(model => model.id === id);
  const rows = data.pairs.map(pair => element("tr", {},
    element("th", { scope: "row" }, compareMark(name(pair.a)), compareMark(name(pair.b)),
        element("span", { className: "hidden" }, `${pair.a} and ${pair.b}`)),
    element("td", { className: "number" }, String(pair.at.length)),
    element("td", { className: "number" }, pair.overlap.length ? `${num(compareMean(pair.overlap), 2)} of 10` : ""),
    element("td", { className: pair.js ? "number" : "note" }, pair.js ? num(compareMean(pair.js)) : pair.why_not)));
  return element("div", { className: "compare-meetings scroll", tabIndex: 0, role: "group", "aria-label": "Two at a time" },
      element("h2", {}, "Two at a time"), element("table", {},
    element("caption", {}, "Wherever both have read the same"),
    element("thead", {}, element("tr", {}, element("td", {}),
        ["places", "likeliest ten in common", "Jensen–Shannon distance"].map(each =>
        element("th", { scope: "col", className: "number" }, each)))),
    element("tbody", {}, rows)));
}

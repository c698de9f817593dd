// Scores that can be moved, and what the model would say then: its next tokens before and after.
import { element, label, percent, quoted } from "./dom.js";
import { computeChosen, computeFigure } from "./compute_show.js";

export const computeSoftmax = scores => {
  const top = scores.reduce((most, value) => value === null ? most : Math.max(most, value), -Infinity);
  const powers = scores.map(value => value === null ? 0 : Math.exp(value - top));
  const total = powers.reduce((sum, value) => sum + value, 0);
  return powers.map(value => total ? value / total : 0);
};

/** A row of inputs for each column. `change(scores)` is told of every move; null stands for −∞. */
export function computeScores(found, names, selected, scores, change) {
  const own = Array.from(found.e.own, value => value === -Infinity ? null : value);
  const now = scores ?? own, shares = computeSoftmax(now), finite = own.filter(value => value !== null);
  const low = Math.floor(Math.min(...finite, 0) - 5), high = Math.ceil(Math.max(...finite, 0) + 5);
  const put = (at, value) => change(now.map((old, place) => place === at ? value : old));
  const rows = computeChosen(names.length, selected, found.alpha.data).map(at => {
    const hidden = own[at] === null, value = now[at], named = `column ${at}, ${label(names[at])}`;
    return element("tr", { "aria-current": at === selected ? "true" : undefined, className: value !== own[at] ? "moved" : "" },
      element("th", { scope: "row" }, element("small", {}, String(at)), element("bdi", {}, label(names[at]))),
      element("td", {}, element("input", { type: "checkbox", checked: value !== null, disabled: hidden, "aria-label": `read ${named}`,
          onchange: event => put(at, event.target.checked ? own[at] : null) })),
      element("td", {}, element("input", { type: "range", min: low, max: high, step: "any", value: value ?? low, disabled: hidden
          || value === null, "aria-label": `score of ${named}`, oninput: event => put(at, +event.target.value) })),
      element("td", {}, hidden ? element("span", { className: "hidden-score masked" }, "−∞")
          : element("input", { type: "number", step: "any", value: value === null ? "" : +value.toPrecision(5), disabled: value === null,
          "aria-label": `score of ${named}, as a number`, onchange: event => event.target.value !== "" && put(at, +event.target.value) })),
      element("td", { className: "number" }, computeFigure(found.alpha.data[at])), element("td", { className: "number" },
          computeFigure(shares[at])));
  });
  const head = ["column", "read", "move", "score e", "α", "α now"].map(name => element("th", { scope: "col" }, name));
  return element("div", { className: "scroll table", tabIndex: 0, role: "region", "aria-label": "scores" },
    element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows)));
}

/** Next tokens, before and after. */
export function computeBars(next) {
  const edited = next.moved !== null, every = [...next.tokens, { piece: null, ...next.rest }];
  const meter = (value, kind) => {
    const bar = element("i", { className: `meter ${kind}` });
    bar.style.setProperty("--share", value);
    return bar;
  };
  const rows = every.map(each => element("tr", {},
    element("th", { scope: "row" }, element("bdi", {}, each.piece === null ? "all others" : label(each.piece))),
    element("td", { className: "bars" }, meter(each.before, "before"), edited && meter(each.after, "after")),
    element("td", { className: "number" }, percent(each.before)), edited && element("td", { className: "number" }, percent(each.after))));
  const head = element("tr", {}, ["token", "", "as it is", ...(edited ? ["edited"] : [])].map(name =>
      element("th", { scope: "col" }, name)));
  const what = next.in_place ? `What stands at row ${next.row}, ${quoted(next.after)}`
      : `What follows row ${next.row}, ${quoted(next.after)}`;
  return element("div", { className: "next" }, element("h3", {}, what),
    element("p", { className: "note" }, edited ? `The edit moves ${percent(next.moved)} of the probability.`
        : "Move a score, and the model is run again with it."),
    element("table", {}, element("thead", {}, head), element("tbody", {}, rows)));
}

// A worked example, line by line: what came out, by what of ours, and what it has to be.
import { element, upTo } from "./dom.js";

const workedMark = (equal, text) => element("span", { className: `lab-verdict lab-${equal ? "holds" : "fails"}` }, text);

/** Numbers as they are written: a row of them may wrap, a matrix keeps its rows. */
function workedNumbers(text, row, about) {
  const all = text.replaceAll("-", "−").split(" ");
  if (!row || all.length <= row) return element("div", { className: "worked-row" }, all.map(each => element("span", {}, each)));
  const rows = upTo(all.length / row).map(at => element("tr", {},
      all.slice(at * row, (at + 1) * row).map(each => element("td", { className: "number" }, each))));
  return element("div", { className: "scroll worked-matrix", tabIndex: 0, role: "region", "aria-label": about },
      element("table", {}, element("tbody", {}, rows)));
}

function workedLine({ what, by, ours, expected, row, equal }) {
  const side = (name, text) => element("div", {}, element("small", {}, name), workedNumbers(text, row, `${what}: ${name}`));
  return element("li", {}, element("p", {}, element("b", {}, what),
      element("span", { className: "note" }, " by ", element("code", {}, by)), workedMark(equal, equal ? "equal" : "NOT EQUAL")),
    side("ours", ours), side(`${equal ? "=" : "≠"} expected`, expected));
}

export function workedHeading({ title, source, about, lines }, others) {
  const right = lines.filter(each => each.equal).length;
  return [element("h2", {}, title, element("small", {}, ` ${source}`)),
      workedMark(right === lines.length, `${right} of ${lines.length} lines equal`), element("div", { className: "compute-more" },
      about), others];
}

export const workedLines = ({ lines }) => [element("ol", { className: "worked" }, lines.map(workedLine)),
  element("p", { className: "note" }, "Fractions are equal or not; other numbers may differ by rounding, 10⁻¹² of the largest.")];

// What is said of a cell and of a row: a sentence, and a table of what was read most.
import { amount, element, num, quoted } from "./dom.js";
import { colourOf, css, shadeOf } from "./colours.js";
import { drawnTop, rowFacts } from "./read_view.js";

const TOP_TEN = 10;
const verb = { weights: "reads", kernel: "takes", influence: "is moved by", "back-off": "is answered with" };

function saidHow(view, said) {
  if (view.look.in_place) return said.guess ? "Its guess for this place: " : "In this place: ";
  return said.guess ? "Its guess: " : view.track.row_label === "writes" ? "Writes " : "What follows: ";
}

const lineName = line => `“\u2068${line.label}\u2069”`;

/** "chat" reads "cat", 0.62, rank 1. */
export function cellSentence(view, row, column, values) {
  const reader = lineName(view.all.rows[row]), reads = verb[view.track.kind] ?? "reads";
  if (column === undefined) return `${reader}, row ${row + 1} of ${view.all.rows.length}`;
  const read = view.picture ? `patch ${view.all.columns[column].label}` : lineName(view.all.columns[column]);
  if (!values) return `${reader} ${reads} ${read}, …`;
  const facts = rowFacts(view, values), rank = 1 + values.reduce((more, value) => more + (Math.abs(value) > Math.abs(values[column])), 0);
  const gold = !view.words && view.track.links?.some(link => link[0] === row && link[1] === column);
  return `${reader} ${reads} ${read}, ${amount(values[column])}, rank ${rank} of ${view.wide}${facts.shares ? `; the row’s entropy is ${num(facts.entropy, 2)} bits` : ""}${gold ? "; a gold link" : ""}`;
}

/** A table of the ten columns that a row reads most, and what is left. */
export function rowTable(view, row, values, pick) {
  if (!values) return [element("p", { className: "note" }, "Reading the row…")];
  const facts = rowFacts(view, values), top = drawnTop(view), most = facts.order.slice(0, TOP_TEN).filter(column => values[column]);
  const said = view.track.rows === view.look.written ? view.all.rows[row].tokens.map(at => view.look.said[at]) : [];
  const rows = most.map((column, at) => {
    const swatch = element("span", { className: "swatch" });
    swatch.style.setProperty("background-color", css(colourOf(shadeOf(values[column], top), view.track.signed)));
    return element("tr", { onclick: () => pick(row, column) }, element("td", { className: "number" }, String(at + 1)),
      element("th", { scope: "row" }, swatch, element("bdi", {}, view.all.columns[column].label)), element("td", { className: "number" },
          amount(values[column])));
  });
  const rest = facts.total - most.reduce((sum, column) => sum + Math.abs(values[column]), 0);
  return [
    element("h3", {}, element("bdi", {}, view.all.rows[row].label), element("small", { className: "note" }, ` row ${row + 1}`)),
    ...said.map(each => element("p", { className: "note" }, saidHow(view, each), quoted(each.piece),
        `, ${num(each.bits ?? Infinity, 2)} bits, p ${amount(each.p)}, rank ${each.rank}`)),
    element("table", { className: "top-ten" }, element("caption", { className: "hidden" }, "What this row reads most"),
      element("thead", {}, element("tr", {}, element("th", { className: "number", scope: "col" }, "rank"),
          element("th", { scope: "col" }, view.picture ? "patch" : "column"), element("th", { className: "number", scope: "col" },
          view.track.kind))),
      element("tbody", {}, rows)),
    element("p", { className: "note" }, most.length
        ? `All others: ${amount(Math.max(0, rest))}${facts.shares ? `; the row’s entropy is ${num(facts.entropy, 2)} bits` : ""}`
        : "Nothing was read in this row."),
  ];
}

// One candidate of a search in words and numbers: what it says so far, how its score comes about, why it was kept or not.
import { element, label, num, quoted } from "./dom.js";

const BEAM_TERMS = 12;                   // written out at most
const beamNumber = value => value === null ? "−∞" : num(value);

/** From the first token to this one. */
export function beamAncestors(data, node) {
  const path = [];
  for (let each = node; each; each = data.byId.get(each.parent)) path.unshift(each);
  return path;
}

export const beamLine = node =>
    `${quoted(node.piece)}: log p ${beamNumber(node.log_prob)}, in all ${beamNumber(node.total)}, score ${beamNumber(node.score)}; ${node.kept ? "kept" : "pruned"}: ${node.why}`;

export function beamDetail(data, node, { force, read }) {
  const path = beamAncestors(data, node), text = path.map(each => each.adds).join(""), banned = node.why.startsWith("banned");
  const margin = node.margin === null ? "" : node.margin < 0 ? ` · ${num(-node.margin)} below the last kept`
      : ` · ${num(node.margin)} above the first that was not kept`;
  return [
    element("h3", {}, "Up to ", quoted(node.piece)),
    element("p", { className: "beam-sofar", dir: "auto" }, text.trim() || "(nothing yet)"),
    element("p", {}, element("span", { className: `badge ${node.kept ? "beam-kept" : ""}` }, node.kept ? "kept" : "pruned"), " ", node.why,
        margin),
    element("p", { className: "beam-sum" }, "log p = ", ...beamTerms(path), ` = ${beamNumber(node.total)}`),
    element("p", { className: "beam-sum" }, beamScore(data.how, node)),
    element("div", { className: "bar" },
      element("button", { type: "button", className: "strong", disabled: node.ended || banned, onclick: force }, "Force this prefix"),
      element("button", { type: "button", disabled: !text.trim(), onclick: () => read(node) }, "Read its map"))];
}

/** −0.310 “the” −1.20 “cat” …: the first and the last of them, if there are many. */
function beamTerms(path) {
  const shown = path.length <= BEAM_TERMS ? path : [...path.slice(0, BEAM_TERMS / 2), null, ...path.slice(-BEAM_TERMS / 2)];
  return shown.map((each, at) => element("span", { className: "beam-term" },
    each ? `${at ? "+ " : ""}${beamNumber(each.log_prob)}` : `+ ${path.length - BEAM_TERMS} more`, each
        ? element("small", {}, label(each.piece)) : ""));
}

function beamScore(how, node) {
  const coverage = node.covered === null ? "" : ` + ${how.coverage} × (${num(node.covered)} of coverage)`;
  return `score = log p / tokens^penalty${coverage ? " + coverage" : ""} = ${beamNumber(node.total)} / ${node.length}^${how.length}${coverage} = ${beamNumber(node.score)}`;
}

/** All candidates of a step: what the canvas shows, for everybody. */
export function beamStepTable(data, step, chosen, pick) {
  const head = ["token", "after", "log p", "in all", "score", "why"];
  const rows = data.columns[step].map(node => element("tr",
      { className: `${node.kept ? "kept" : "pruned"} ${chosen?.id === node.id ? "on" : ""}`, onclick: () => pick(node) },
    element("th", { scope: "row" }, element("button",
        { type: "button", "aria-pressed": String(chosen?.id === node.id),
        "aria-label": `${label(node.piece)}, ${node.kept ? "kept" : "pruned"}`,
      onclick: event => (event.stopPropagation(), pick(node)) }, label(node.piece))),
    element("td", { dir: "auto", className: "beam-after" }, beamAfter(data, node)),
    ...[node.log_prob, node.total, node.score].map(value => element("td", { className: "number" }, beamNumber(value))),
    element("td", {}, node.why)));
  return element("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": "Candidates of this step, best first" },
      element("table", {},
    element("caption", {}, `Step ${step + 1}: ${rows.length} candidates, best first`),
    element("thead", {}, element("tr", {},
        head.map((name, at) => element("th", { scope: "col", className: at > 1 && at < 5 ? "number" : "" }, name)))),
    element("tbody", {}, rows)));
}

function beamAfter(data, node) {
  const text = beamAncestors(data, node).slice(0, -1).map(each => each.adds).join("").trim();
  return text.length > 28 ? `…${text.slice(-27)}` : text;
}

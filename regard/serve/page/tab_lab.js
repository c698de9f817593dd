// Lab: a card for each claim: the sentence, the verdict and its rule, charts with their spread over seeds, the command.
import { element, num } from "./dom.js";

const LAB_VERDICTS = ["holds", "fails", "unclear"];
const lab = {};

const labCell = value => value === null || value === undefined ? "" : typeof value === "number" ? Number.isInteger(value) ? value.toLocaleString("en") : num(value) : String(value);

/** A chart is shown as a picture, never as a part of the page: nothing in it can run. */
const labPlot = plot => element("figure", {}, element("img", { alt: plot.title, loading: "lazy", src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(plot.svg)}` }), element("figcaption", {}, plot.title));

function labTable({ columns, rows }, name) {
  const numeric = columns.map((_, at) => rows.every(row => row[at] === null || typeof row[at] === "number"));
  const cell = (kind, value, at, scope) => element(kind, { className: numeric[at] ? "number" : "", ...scope }, kind === "td" ? labCell(value) : String(value));
  return element("details", {}, element("summary", {}, `Table (${rows.length} rows)`), element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": `Table of ${name}` },
    element("table", {}, element("thead", {}, element("tr", {}, columns.map((column, at) => cell("th", column, at, { scope: "col" })))), element("tbody", {}, rows.map(row => element("tr", {}, row.map((value, at) => cell("td", value, at))))))));
}

const labMeasured = rule => `${rule.says}: ${num(rule.mean)} (${num(rule.low)} to ${num(rule.high)}), to be ${rule.side} ${num(rule.bound)}: ${rule.verdict}`;

function labCard(card, app) {
  const verdict = LAB_VERDICTS.includes(card.verdict) ? card.verdict : "unclear", name = card.title ?? card.name;
  const when = [card.machine, card.where, card.when, card.seeds ? `${card.seeds} seeds` : "", card.quick ? "quick" : "", card.seconds ? `${num(card.seconds, 0)} s` : ""].filter(Boolean).join(" · ");
  const flipped = card.flipped ? `${card.flip ? `${card.flip}: ` : ""}${card.flipped.verdict}` : "not run";
  const facts = [["From", card.source], ["Equation", card.equation], ["Refuted by", card.refuted], ["Rule", card.rule], ["Measured", card.rules?.map(labMeasured).join("; ")], ["Flipped", flipped], ["Notes", card.notes], ["Run", when]];
  const save = () => {
    const link = element("a", { href: URL.createObjectURL(new Blob([card.csv], { type: "text/csv" })), download: `${card.name}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const copy = () => navigator.clipboard.writeText(card.command).then(() => app.say("The command is copied.")).catch(() => app.say(card.command));
  return element("article", { className: "lab-card", id: `lab-${card.name}`, "data-verdict": verdict }, element("h2", {}, card.number ? `${card.number}. ${name}` : name, element("span", { className: `lab-verdict lab-${verdict}` }, verdict)),
    element("p", { className: "lab-claim" }, card.claim ?? ""), ...(card.plots ?? []).filter(plot => plot.svg).map(labPlot), card.table ? labTable(card.table, name) : null,
    element("dl", {}, facts.filter(([, value]) => value).flatMap(([what, value]) => [element("dt", {}, what), element("dd", {}, value)])),
    element("div", { className: "bar" }, card.command ? [element("code", {}, card.command), element("button", { type: "button", onclick: copy }, "Copy")] : null, card.csv ? element("button", { type: "button", onclick: save }, "CSV") : null));
}

function labPresets(app, presets) {
  return element("section", { "aria-label": "Worked examples" }, element("h2", {}, "Worked examples"), element("ul", { className: "lab-presets" }, presets.map(each => element("li", {},
    element("a", { href: "#", onclick: event => {
      event.preventDefault();
      app.set({ tab: "compute", preset: each.name, step: undefined, row: undefined, column: undefined });
    } }, each.title), each.about ? element("span", { className: "note" }, ` ${each.about}`) : null))));
}

function labCards(app) {
  const wanted = lab.cards.filter(card => !app.state.verdict || card.verdict === app.state.verdict);
  const count = name => lab.cards.filter(card => card.verdict === name).length;
  const pick = name => element("button", { type: "button", "aria-pressed": String(app.state.verdict === name), onclick: () => app.set({ verdict: app.state.verdict === name ? undefined : name }) }, `${name} ${count(name)}`);
  lab.list.replaceChildren(element("div", { className: "bar", role: "group", "aria-label": "Verdicts" }, element("span", { className: "note" }, `${lab.cards.length} claims measured. A verdict comes from a rule written down before the run.`), LAB_VERDICTS.map(pick)),
    element("div", { className: "lab-cards" }, wanted.map(card => labCard(card, app))));
}

export const tab = {
  name: "lab", title: "Lab", works: (model, app) => app.api.live,
  async open(root, app) {
    lab.root = root;
    try {
      const asked = app.api.get("/api/presets"), { cards } = await app.api.get("/api/lab");
      if (lab.root !== root) return;
      lab.cards = cards;
      root.append(lab.list = element("section", { "aria-label": "Claims" }));
      if (cards.length) labCards(app);
      else lab.list.append(element("p", {}, "No claim has been measured here yet: ", element("code", {}, "regard lab run all"), " measures them, and ", element("code", {}, "regard serve --lab DIR"), " shows what is in a folder."));
      const { presets } = await asked;
      if (lab.root === root) root.append(labPresets(app, presets));
    } catch (error) {
      app.fail(error);
    }
  },
  update(app, changed) {
    if (lab.cards?.length && changed.includes("verdict")) labCards(app);
  },
  close() { lab.root = lab.cards = null; },
  keys: {},
};

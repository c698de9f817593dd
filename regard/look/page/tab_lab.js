// Lab: each claim, with a card for every machine: the verdict and its rule, charts with their spread over seeds, the command.
import { element, num } from "./dom.js";

const LAB_VERDICTS = ["holds", "fails", "unclear"];
const lab = {};

const labCell = value => typeof value !== "number" ? String(value ?? "") : Number.isInteger(value) ? value.toLocaleString("en")
    : num(value);

/** A chart is shown as a picture, never as a part of the page: nothing in it can run. */
const labPlot = plot => element("figure", {},
    element("img", { alt: plot.title, loading: "lazy",
    src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(plot.svg)}` }), element("figcaption", {}, plot.title));

function labTable({ columns, rows }, name) {
  const numeric = columns.map((_, at) => rows.every(row => row[at] === null || typeof row[at] === "number"));
  const cell = (kind, value, at) => element(kind, { className: numeric[at] ? "number" : "", scope: kind === "th" && "col" }, kind === "td"
      ? labCell(value) : String(value));
  return element("details", {}, element("summary", {}, `Table (${rows.length} rows)`),
      element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": `Table of ${name}` },
    element("table", {}, element("thead", {}, element("tr", {}, columns.map((column, at) => cell("th", column, at)))),
        element("tbody", {}, rows.map(row => element("tr", {}, row.map((value, at) => cell("td", value, at))))))));
}

const labFlip = (card, rule) => card.flips?.[rule.cause]?.rules.find(flipped => flipped.says === rule.says);

/** One row a rule: the median over seeds, its interval, the bound, the verdict, and what becomes of it without its cause. */
function labRules(card) {
  const between = rule => `${num(rule.low)} to ${num(rule.high)}${rule.exact ? " (all seeds)" : ""}`;
  const without = rule => {
    const flip = labFlip(card, rule);
    return rule.condition ? "a condition" : flip ? `${flip.after}: ${num(flip.median)} (${rule.cause})` : "not run";
  };
  const cells = rule => [[rule.says, rule.condition && element("span", { className: "note" }, ` Condition: ${rule.condition}.`)],
      `${num(rule.median)}${rule.unit ?? ""}`, between(rule), `${rule.side} ${num(rule.bound)}`, rule.verdict, without(rule)];
  const head = ["Rule", "Median", "95% over seeds", "To be", "Verdict", "Cause taken away"];
  return element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": `Rules of ${card.name}, ${card.machine}` },
    element("table", { className: "lab-rules" }, element("thead", {},
        element("tr", {}, head.map(name => element("th", { scope: "col" }, name)))), element("tbody", {}, card.rules.map(rule =>
        element("tr", {}, cells(rule).map(cell => element("td", {}, cell)))))));
}

const labVerdict = card => LAB_VERDICTS.includes(card.verdict) ? card.verdict : "unclear";
const labPill = (card, text = "") => element("span", { className: `lab-verdict lab-${labVerdict(card)}` }, text + labVerdict(card));
const labApart = cards => new Set(cards.map(labVerdict)).size > 1;

/** What each flip does, and how many rules came out otherwise. */
const labFlipped = ({ flip, flip_told: told }) => [flip, told?.replaceAll("->", "→")].filter(Boolean).join(": ");

function labFacts(card) {
  const when = [card.machine, card.where, card.when, card.seeds ? `${card.seeds} seeds` : "", card.quick ? "quick" : "", card.seconds
      ? `${num(card.seconds, 0)} s` : ""].filter(Boolean).join(" · ");
  return [["From", card.source], ["Equation", card.equation], ["Refuted by", card.refuted], ["Flipped", labFlipped(card)],
      ["Rules", card.looked || (card.fixed && `stand since ${card.fixed.on}`)], ["Notes", card.notes], ["Run", when]];
}

const labList = facts => element("dl", {},
    facts.filter(([, value]) => value).flatMap(([what, value]) => [element("dt", {}, what), element("dd", {}, value)]));

function labCard(card, facts, app) {
  const save = () => {
    const link = element("a", { href: URL.createObjectURL(new Blob([card.csv], { type: "text/csv" })), download: `${card.name}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const copy = () => navigator.clipboard.writeText(card.command).then(() => app.say("The command is copied.")).catch(() =>
      app.say(card.command));
  return element("article", { className: "lab-card", id: `lab-${card.name}-${card.machine}` },
      element("h3", {}, card.machine, labPill(card)), card.rules?.length > 0 && labRules(card),
    card.plots?.filter(plot => plot.svg).map(labPlot), card.table && labTable(card.table, `${card.name}, ${card.machine}`), labList(facts),
    element("div", { className: "bar" }, card.command && [element("code", {}, card.command),
        element("button", { type: "button", onclick: copy }, "Copy")], card.csv
        && element("button", { type: "button", onclick: save }, "CSV")));
}

/** What the machines found, side by side; what they have in common is told once. */
function labClaim(every, wanted, app) {
  const [{ name, number, title = name, claim }] = every, facts = wanted.map(labFacts), both = wanted.length > 1;
  const common = facts[0].map(([, value], at) => both && facts.every(own => own[at][1] === value));
  return element("section", { className: `lab-claim ${both ? "lab-both" : ""}`, id: `lab-${name}` },
      element("h2", {}, number ? `${number}. ${title}` : title, every.length > 1
      && element("span", { className: "lab-verdicts" }, labApart(every) && "machines disagree",
      every.map(card => labPill(card, `${card.machine}: `)))),
    element("p", {}, claim), both && labList(facts[0].filter((_, at) => common[at])), element("div", { className: "lab-cards" },
        wanted.map((card, own) => labCard(card, facts[own].filter((_, at) => !common[at]), app))));
}

function labExamples(app, { presets, worked }) {
  const link = ({ name, title }) => element("a", { href: "#", onclick: event => {
    event.preventDefault();
    app.set({ tab: "compute", preset: name, step: undefined, row: undefined, column: undefined });
  } }, title);
  const rows = own => element("ul", {}, presets.filter(each => own.presets.includes(each.name)).map(each => element("li", {}, link(each))));
  return element("section", { "aria-label": "Worked examples" }, element("h2", {}, "Worked examples"),
    element("ul", { className: "lab-presets" }, worked.map(each =>
        element("li", {}, link(each), element("span", { className: "note" }, ` ${each.source}. ${each.about}`), rows(each)))));
}

function labCards(app) {
  const { verdict, machine } = app.state, machines = [...new Set(lab.cards.map(card => card.machine))];
  const claims = [...new Set(lab.cards.map(card => card.name))].map(name => lab.cards.filter(card => card.name === name));
  const wanted = (own, is = verdict) => own.filter(card => (!machines.includes(machine) || card.machine === machine)
      && (!is || (is === "disagree" ? labApart(own) : labVerdict(card) === is)));
  const count = name => claims.flatMap(own => wanted(own, name)).length;
  const pick = (name, value, text) => element("button",
      { type: "button", "aria-pressed": String(app.state[name] === value), onclick: () =>
      app.set({ [name]: app.state[name] === value ? undefined : value }) }, text);
  lab.list.replaceChildren(element("div", { className: "bar", role: "group", "aria-label": "Verdicts" },
      element("span", { className: "note" },
      `${claims.length} claims measured. A verdict comes from rules with a bound, and a 95% interval of the median over seeds.`),
    LAB_VERDICTS.map(name => pick("verdict", name, `${name} ${count(name)}`)), machines.length > 1
        && [pick("verdict", "disagree", `machines disagree ${claims.filter(labApart).length}`),
        ...machines.map(name => pick("machine", name, `on ${name}`))]),
  element("div", { className: "lab-claims" }, claims.map(own => [own, wanted(own)]).filter(([, cards]) =>
      cards.length).map(([own, cards]) => labClaim(own, cards, app))));
}

export const tab = {
  name: "lab", title: "Lab",
  async open(root, app) {
    lab.root = root;
    try {
      const asked = app.api.get("/api/presets"), { cards } = await app.api.get("/api/lab");
      if (lab.root !== root) return;
      lab.cards = cards;
      root.append(lab.list = element("section", { "aria-label": "Claims" }));
      if (cards.length) labCards(app);
      else lab.list.append(element("p", {}, "No claim has been measured here yet: ", element("code", {}, "regard lab run all"),
          " measures them, and ", element("code", {}, "regard serve --lab DIR"), " shows what is in a folder."));
      const examples = await asked;
      if (lab.root === root) root.append(labExamples(app, examples));
    } catch (error) {
      app.fail(error);
    }
  },
  update(app, changed) {
    if (lab.cards?.length && (changed.includes("verdict") || changed.includes("machine"))) labCards(app);
  },
  close() { lab.root = lab.cards = null; },
  keys: {},
};

// Compare: two to four models on one text, aligned by its characters, on one scale of bits.
import { element, clamp, num, quietly, quoted, upTo } from "./dom.js";
import { isImage } from "./app.js";
import { compareLegend, compareMark, compareReady, makeCompareText } from "./compare_text.js";
import { compareDetail, compareMeetings } from "./compare_detail.js";
import { compareCurve } from "./compare_curve.js";
import { makeCompareMaps } from "./compare_map.js";

const COMPARE_INPUTS = ["models", "text", "source", "image"];
let compareApp, compareParts, compareData, compareWaiting;

export const tab = {
  name: "compare", title: "Compare", several: true,

  open(root, app) {
    compareApp = app;
    const [empty, totals, texts, detail, curve] = [["p", "note"], ["section", "compare-totals"], ["section", "compare-texts"],
        ["section", "compare-detail"], ["section", "compare-curve"]]
      .map(([name, className]) => element(name, { className }));
    const maps = makeCompareMaps(app);
    texts.setAttribute("aria-label", "The text, tinted by bits per character");
    detail.setAttribute("aria-label", "What each model expected here");
    compareParts = { empty, totals, texts, detail, curve, maps,
        body: element("div", { className: "compare-body", hidden: true }, totals, texts, detail, curve, maps.node), resized: quietly(120,
        () => compareData && compareDraw()) };
    root.replaceChildren(empty, compareParts.body);
    addEventListener("resize", compareParts.resized);
    compareAsk();
  },

  update(app, changed) {
    if (changed.some(name => COMPARE_INPUTS.includes(name))) {
      if (app.state.char !== undefined && !changed.includes("char")) return app.set({ char: undefined, of: undefined });
      return compareAsk();
    }
    if (!compareData) return compareAsk();
    if (changed.includes("theme")) return compareDraw();
    if (changed.includes("difference") || changed.includes("track")) compareParts.maps.show(compareData);
    compareSelect();
  },

  close() {
    compareWaiting?.abort();
    removeEventListener("resize", compareParts.resized);
    compareData = undefined;
  },

  keys: {
    ArrowLeft: ["the token before", event => compareMove(event.shiftKey ? -10 : -1)],
    ArrowRight: ["the token after", event => compareMove(event.shiftKey ? 10 : 1)],
    Home: ["the first token", () => compareMove(-Infinity)],
    End: ["the last token", () => compareMove(Infinity)],
    Escape: ["clear the selection", () => compareApp.set({ char: undefined, of: undefined })],
  },
};

// ---- asking

async function compareAsk() {
  compareWaiting?.abort();
  const { chosen, model } = compareApp, parts = compareParts, asked = compareApp.request(model);
  if (chosen.length < 2) return compareNothing("Choose another model to compare with:",
      compareApp.models.filter(each => each.task === model.task && each !== model));
  if (chosen.some(each => each.task !== model.task)) {
    return compareNothing("These models do different things: compare language models with language models, "
      + "translators with translators.");
  }
  const own = isImage(model) ? { image: asked.image } : { text: asked.text ?? asked.source ?? "" };
  if (!(own.image ?? own.text)?.trim()) return compareNothing(isImage(model) ? "Choose a picture above." : "Write something above.");
  const waiting = compareWaiting = new AbortController();
  parts.body.classList.add("busy");
  try {
    const told = await compareApp.api.post("/api/side-by-side", { models: chosen.map(each => each.id), ...own }, waiting.signal);
    if (waiting !== compareWaiting) return;
    compareData = compareReady(told, chosen);
    parts.empty.textContent = "";
    parts.body.hidden = false;
    compareDraw();
    parts.maps.show(compareData);
    const best = compareBest();
    compareApp.say(best ? `Least surprised: ${best.name}, ${num(best.bits_per_character)} bits per character.` : "Compared.");
  } catch (error) {
    if (waiting !== compareWaiting || error.name === "AbortError") return;
    compareNothing(error.message);
    compareApp.fail(error);
  } finally {
    if (waiting === compareWaiting) parts.body.classList.remove("busy");
  }
}

function compareNothing(why, others = []) {
  compareData = undefined;
  compareParts.body.hidden = true;
  compareParts.empty.replaceChildren(why, " ", ...others.map(each => element("button", { type: "button", className: "compare-add",
    onclick: () => compareApp.set({ models: [...compareApp.chosen.map(one => one.id), each.id] }) }, each.name)));
}

// ---- drawing

const compareBest = () => compareData.kind === "text" ? compareData.models.filter(each => each.bits !== null).sort((a, b) =>
    a.bits - b.bits)[0] : null;

function compareDraw() {
  const { totals, texts, curve } = compareParts;
  totals.replaceChildren(compareTotals(), compareLegend(compareData.top));
  compareParts.columns = compareData.models.map((model, at) => makeCompareText(compareData, at, {
    point: place => compareSelect({ char: place, of: at }), leave: () => compareSelect(), pick: place =>
        compareApp.set({ char: String(place), of: String(at) }) }));
  texts.style.setProperty("--columns", compareData.models.length);
  texts.replaceChildren(...compareParts.columns.map(column => column.node));
  curve.replaceChildren(...(compareData.pairs.length ? [compareMeetings(compareData)] : []),
      ...compareCurve(compareData, curve.clientWidth || texts.clientWidth || 600));
  compareSelect();
}

function compareTotals() {
  const written = compareData.kind === "written", best = compareBest();
  const infinite = value => value === null ? "∞" : num(value);
  const heads = written ? ["", "writes", "tokens", "bits", "log p", "score", ...compareData.models.map(model => `bits of ${model.name}'s`)]
    : ["", "family", "tokens", "bits", "bits per character"];
  const rows = compareData.models.map((model, at) => element("tr", { className: model === best ? "best" : "" },
    element("th", { scope: "row" }, compareMark(at), model.name),
    element("td", { dir: "auto" }, written ? model.text.trim() || "(nothing)" : model.family),
    ...[String(model.tokens.length), infinite(model.bits), ...(written
        ? [num(model.log_prob), num(model.score), ...model.judged.map(bits => bits === null ? "too long" : num(bits))]
        : [infinite(model.bits_per_character)])]
      .map(value => element("td", { className: "number" }, value))));
  const said = [...new Set(compareData.models.flatMap(model => model.notes))];
  const notes = said.map(note => element("p", { className: "note" },
      `${compareData.models.filter(model => model.notes.includes(note)).map(model => model.name).join(", ")}: ${note}.`));
  return element("div", {}, element("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": "Totals" }, element("table", {},
    element("caption", {}, written ? "What each writes; the last columns: how many bits each text, with its end, is to each model"
        : "All of the text"),
    element("thead", {}, element("tr", {},
        heads.map((name, at) => element(name ? "th" : "td", name ? { scope: "col", className: at > 1 ? "number" : "" } : {}, name)))),
    element("tbody", {}, rows))), ...notes);
}

/** Marks what is pointed at, or else what is selected, in every column. */
function compareSelect(pointed) {
  const { state } = compareApp, char = pointed?.char ?? (state.char === undefined ? undefined : +state.char), of = pointed?.of
      ?? +(state.of ?? 0);
  const valid = Number.isInteger(char) && compareData.models[of];
  const spans = compareData.models.map((model, at) => valid && (compareData.kind === "text" || at === of)
      ? compareData.at(at, clamp(char, 0, Math.max(0, model.text.length - 1))) : []);
  compareParts.columns.forEach((column, at) => column.mark(spans[at]));
  compareParts.detail.replaceChildren(...compareDetail(compareData, spans, char));
  const place = compareParts.curve.querySelector(".compare-here");
  if (place && valid) place.setAttribute("transform", `translate(${compareData.curveX?.(char) ?? 0} 0)`);
  place?.classList.toggle("off", !valid);
}

function compareMove(by) {
  if (!compareData) return;
  const { state } = compareApp, of = clamp(+(state.of ?? 0) || 0, 0, compareData.models.length - 1), model = compareData.models[of];
  const now = state.char === undefined ? -1 : compareData.at(of, +state.char)[0] ?? 0;
  const next = clamp(now + by, 0, model.tokens.length - 1), [, start] = model.tokens[next];
  compareApp.set({ char: String(start), of: String(of) });
  const told = upTo(compareData.models.length).flatMap(at => compareData.kind === "text" || at === of
      ? compareData.at(at, start).slice(0, 1).map(token => {
    const [piece, , , bits] = compareData.models[at].tokens[token];
    return `${compareData.models[at].name} ${quoted(piece)} ${bits === null ? "∞" : num(bits)} bits`;
  }) : []);
  compareApp.say(told.join("; "));
}

// Beam: what is written, the search for it as a tree, and for every branch that was cut the reason why.
import { choice, clamp, element, num, quietly, quoted } from "./dom.js";
import { isImage, isText } from "./app.js";
import { makeBeamTree } from "./beam_tree.js";
import { beamAncestors, beamDetail, beamLine, beamStepTable } from "./beam_node.js";
import { makeBeamAlignment } from "./beam_alignment.js";

const BEAM_WIDTHS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16];
const BEAM_LENGTHS = [8, 16, 24, 48, 96];
const BEAM_INPUTS = ["models", "text", "source", "image"];
const BEAM_HOW = ["width", "length_penalty", "coverage", "new_tokens", "force"];

let beamApp, beamParts, beamData, beamWaiting;

export const tab = {
  name: "beam", title: "Beam",

  open(root, app) {
    beamApp = app;
    beamParts = beamFrame(app);
    root.replaceChildren(...beamParts.all);
    addEventListener("resize", beamParts.resized);
    beamControls();
    beamAsk();
  },

  update(app, changed) {
    if (app.state.force && changed.some(name => BEAM_INPUTS.includes(name)) && !changed.includes("force")) {
      return app.set({ force: undefined, node: undefined, step: undefined });       // it was of another text
    }
    if (changed.some(name => [...BEAM_INPUTS, ...BEAM_HOW].includes(name))) {
      beamControls();
      return beamAsk();
    }
    if (beamData) beamShow(changed);
  },

  close() {
    beamWaiting?.abort();
    removeEventListener("resize", beamParts.resized);
    beamData = undefined;
  },

  keys: {
    ArrowLeft: ["a step back", event => beamMove(event.shiftKey ? -10 : -1, 0)],
    ArrowRight: ["a step on", event => beamMove(event.shiftKey ? 10 : 1, 0)],
    ArrowUp: ["the candidate above", () => beamMove(0, -1)],
    ArrowDown: ["the candidate below", () => beamMove(0, 1)],
    Home: ["the first step", () => beamMove(-Infinity, 0)],
    End: ["the last step", () => beamMove(Infinity, 0)],
    f: ["force the chosen prefix", () => beamForce()],
    u: ["let the forced prefix go", () => beamApp.set({ force: undefined, node: undefined, step: undefined })],
    Escape: ["clear the selection", () => beamApp.set({ node: undefined })],
  },
};

function beamFrame(app) {
  const tree = makeBeamTree({
    point: node => { line.textContent = node ? beamLine(node) : beamRest(); },
    pick: node => app.set({ node: String(node.id), step: node.step + 1 }),
  });
  const controls = element("div", { className: "bar", role: "group", "aria-label": "How to search" });
  const scrub = element("input", { type: "range", min: 1, max: 1, value: 1, id: "beam-step", "aria-label": "Step of the search",
    oninput: event => beamApp.set({ step: +event.target.value, node: undefined }) });
  const line = element("p", { className: "beam-line" });
  const results = element("section", { className: "beam-results", "aria-label": "What was found" });
  const alignment = makeBeamAlignment(app);
  const detail = element("section", { className: "beam-detail", "aria-label": "The chosen candidate" });
  const table = element("section", { className: "beam-table", "aria-label": "Candidates of this step" });
  const count = element("output", { htmlFor: "beam-step" });
  const steps = element("div", { className: "bar beam-steps" }, element("label", { htmlFor: "beam-step" }, "Step"), scrub, count,
    element("span", { className: "note" }, "kept in bold, pruned faded; numbers are scores"));
  const body = element("div", { className: "beam-body", hidden: true }, results, alignment.node, steps, tree.node, line,
    element("div", { className: "beam-below" }, detail, table));
  const empty = element("p", { className: "note beam-empty" });
  return { all: [controls, empty, body], tree, controls, scrub, count, line, results, alignment, detail, table, body, empty,
    resized: quietly(120, () => beamData && beamShow(["size"])) };
}

function beamControls() {
  const { state, model } = beamApp, set = name => value => beamApp.set({ [name]: +value, node: undefined, step: undefined });
  const number = (label, name, value) => {
    const box = element("input", { type: "number", min: 0, max: 10, step: .1, value, "aria-label": label, onchange: event =>
        event.target.checkValidity() && set(name)(event.target.value) });
    return element("label", { className: "choice" }, element("span", {}, label), box);
  };
  const forced = state.force ? element("span", { className: "badge beam-forced" }, "forced prefix ",
      element("b", { id: "beam-forced" }, "…"), " ",
    element("button", { type: "button", onclick: () => beamApp.set({ force: undefined, node: undefined, step: undefined }) }, "Let it go"))
        : null;
  beamParts.controls.replaceChildren(
    choice("Beams", BEAM_WIDTHS, String(state.width ?? 5), set("width")),
    number("Length penalty", "length_penalty", state.length_penalty ?? 1),
    isText(model) ? choice("Tokens", BEAM_LENGTHS, String(state.new_tokens || 24), set("new_tokens"))
        : number("Coverage", "coverage", state.coverage ?? 0),
    ...(forced ? [forced] : []));
}

function beamRequest() {
  const { state, model } = beamApp, asked = beamApp.request(model);
  const force = (state.force ?? "").split(",").filter(part => /^\d+$/.test(part)).map(Number);
  return { model: model.id, ...(isImage(model) ? { image: asked.image } : { text: asked.text ?? asked.source ?? "" }),
    width: clamp(Math.round(state.width ?? 5), 1, 16), length_penalty: clamp(state.length_penalty ?? 1, 0, 10), force,
    ...(isText(model) ? { new_tokens: clamp(state.new_tokens || 24, 1, 128) } : { coverage: clamp(+(state.coverage ?? 0) || 0, 0, 10) }) };
}

async function beamAsk() {
  beamWaiting?.abort();
  const waiting = beamWaiting = new AbortController(), request = beamRequest(), parts = beamParts;
  if (isImage(beamApp.model) ? !request.image : !isText(beamApp.model) && !request.text.trim()) {
    return beamNothing(isImage(beamApp.model) ? "Choose a picture above." : "Write something to translate above.");
  }
  parts.body.classList.add("busy");
  try {
    const data = await beamApp.api.post("/api/beam", request, waiting.signal);
    if (waiting !== beamWaiting || parts !== beamParts) return;
    beamData = beamReady(data);
    parts.empty.textContent = data.notes.join(" ");
    parts.body.hidden = false;
    beamShow(["data"]);
    const best = beamData.finished[0];
    beamApp.say(best ? `${data.columns.length} steps; best: ${best.text.trim()}` : "Nothing was found.");
  } catch (error) {
    if (waiting !== beamWaiting || error.name === "AbortError") return;
    beamNothing(error.message);
    beamApp.fail(error);
  } finally {
    if (waiting === beamWaiting) parts.body.classList.remove("busy");
  }
}

function beamNothing(why) {
  beamData = undefined;
  beamParts.body.hidden = true;
  beamParts.empty.textContent = why;
}

/** Every node knows its step and its place in the column. */
function beamReady(data) {
  const byId = new Map();
  data.columns.forEach((column, step) => column.forEach((node, place) => byId.set(node.id, Object.assign(node, { step, place }))));
  return { ...data, byId };
}

const beamChosen = () => beamData.byId.get(+beamApp.state.node) ?? null;
const beamStep = () => clamp((beamApp.state.step ?? (beamChosen()?.step ?? Infinity) + 1) - 1, 0, beamData.columns.length - 1);
const beamRest = () => beamChosen() ? beamLine(beamChosen())
    : `Step ${beamStep() + 1} of ${beamData.columns.length}: point at a candidate, or move with the arrow keys.`;

function beamShow(changed) {
  const { tree, scrub, count, line, results, alignment, detail, table } = beamParts, step = beamStep(), chosen = beamChosen();
  const best = beamData.finished[0], shown = chosen ?? (best ? beamData.byId.get(best.node) : null);
  const path = shown ? beamAncestors(beamData, shown) : [];
  scrub.max = beamData.columns.length;
  scrub.value = step + 1;
  count.value = `${step + 1} of ${beamData.columns.length}`;
  tree.draw(beamData, { step, chosen, path: new Set(path.map(node => node.id)), follow: !changed.includes("size") });
  line.textContent = beamRest();
  results.replaceChildren(...beamResults());
  detail.replaceChildren(...(chosen ? beamDetail(beamData, chosen, { force: beamForce, read: beamRead })
      : [element("p", { className: "note" }, "Choose a candidate to see its text and the arithmetic of its score.")]));
  table.replaceChildren(beamStepTable(beamData, step, chosen, node => beamApp.set({ node: String(node.id), step: node.step + 1 })));
  const forced = document.getElementById("beam-forced");
  if (forced) forced.textContent = quoted(beamData.force.map((_, at) => beamData.columns[at]?.find(node => node.kept)?.adds
      ?? "").join("").trim());
  const found = beamData.finished.find(each => chosen && each.node === chosen.id) ?? best;
  if (changed.some(name => ["data", "node", "size", "theme"].includes(name))) alignment.show(found, changed.includes("size"));
}

/** What was found, best first; each row chooses where it ends in the tree. */
function beamResults() {
  const { finished } = beamData, what = isText(beamApp.model) ? beamData.text : "";
  if (!finished.length) return [element("p", { className: "note" }, "Nothing was found: everything that could be said is banned.")];
  const chosen = beamChosen();
  const rows = finished.map((each, at) => element("tr", { className: chosen?.id === each.node ? "on" : "" },
    element("td", { className: "number" }, String(at + 1)),
    element("td", {}, element("button", { type: "button", className: "beam-text", dir: "auto",
        "aria-pressed": String(chosen?.id === each.node),
      onclick: () => beamApp.set({ node: String(each.node), step: beamData.byId.get(each.node).step + 1 }) }, each.text.trim()
          || "(nothing)"), each.finished ? "" : " …"),
    element("td", { className: "number" }, String(each.length)),
    element("td", { className: "number" }, num(each.log_prob)),
    element("td", { className: "number" }, num(each.score))));
  return [
    element("p", { className: "beam-best", dir: "auto" }, what ? element("span", { className: "beam-prompt" }, what) : "",
        element("b", {}, what ? finished[0].text : finished[0].text.trim())),
    element("details", { open: finished.length > 1 }, element("summary", {}, `${finished.length} found, by score`),
      element("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": "All that was found" }, element("table", {},
        element("thead", {}, element("tr", {},
            ...["", "text", "tokens", "log p", "score"].map((name, at) =>
            element("th", { scope: "col", className: at === 1 ? "" : "number" }, name)))),
        element("tbody", {}, rows))))];
}

// ---- moving and forcing

function beamMove(steps, places) {
  if (!beamData) return;
  const from = beamChosen(), step = clamp(beamStep() + steps, 0, beamData.columns.length - 1);
  if (steps && !from) return beamApp.set({ step: step + 1 });
  const column = beamData.columns[step];
  const kin = step < from?.step ? beamAncestors(beamData, from)[step] : step > from?.step ? column.find(node => node.parent === from.id)
      : null;
  const place = steps ? kin?.place ?? Math.min(from.place, column.length - 1) : from?.step === step
      ? clamp(from.place + places, 0, column.length - 1) : places > 0 ? 0 : column.length - 1;
  const node = column[place];
  beamApp.set({ step: step + 1, node: String(node.id) });
  beamApp.say(beamLine(node));
}

function beamForce() {
  const node = beamData && beamChosen();
  if (!node || node.ended || node.why.startsWith("banned")) return;
  beamApp.set({ force: beamAncestors(beamData, node).map(each => each.token).join(","), node: undefined, step: node.step + 1 });
}

/** The map of what was written up to a node. */
function beamRead(node) {
  const said = beamAncestors(beamData, node).map(each => each.adds).join("");
  beamApp.set(isText(beamApp.model) ? { tab: "read", text: beamData.text + said, row: undefined, column: undefined }
    : { tab: "read", target: said.trim(), row: undefined, column: undefined });
}

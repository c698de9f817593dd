// Generate: what may come next, over the whole vocabulary, before and after the filters; step, undo, branch.
import { clamp, element, label, num, percent, quietly, quoted } from "./dom.js";
import { colourOf, css, inkOn } from "./colours.js";

const GEN_FIRST = 20, GEN_MORE = 50, GEN_SPECIALS = 4, GEN_STRONG = 12;     // bits that are tinted strongest
const GEN_USUAL = { temperature: 1, top_k: 0, top_p: 1, seed: 0 };

/** Places of log-probabilities from the largest down; of equals the first, and what is never said last. */
export function generateOrder(logProbs, banned = []) {
  const own = Float64Array.from(logProbs);
  for (const id of banned) own[id] = -Infinity;
  const order = Uint32Array.from(own, (_, id) => id).sort((a, b) => own[b] > own[a] ? 1 : own[b] < own[a] ? -1 : a - b);
  return { order, values: Float64Array.from(order, id => own[id]) };
}

/** Probabilities by rank after temperature, top-k and top-p: the rules of decoding/sampling.py, over the whole vocabulary. */
export function generateKept({ values }, { temperature, top_k, top_p }) {
  if (temperature === 0) return values.map((_, rank) => rank === 0 ? 1 : 0);
  const scaled = weights => {
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return weights.map(weight => weight / total);
  };
  let weights = scaled(values.map(value => Math.exp((value - values[0]) / temperature)));
  if (top_k) weights = scaled(weights.map((weight, rank) => rank < top_k ? weight : 0));
  if (top_p < 1) {
    let held = 0;                                          // what the likelier tokens hold together
    weights = scaled(weights.map(weight => {
      const kept = held < top_p ? weight : 0;
      held += weight;
      return kept;
    }));
  }
  return weights;
}

export const generateBits = weights => weights.reduce((sum, p) => p > 0 ? sum - p * Math.log2(p) : sum, 0);

const gen = { branches: [], answers: new Map(), names: new Map() };

const genSaid = app => (app.state.said ? String(app.state.said).split(",").map(Number).filter(Number.isInteger) : []);
const genHow = app => Object.fromEntries(Object.entries(GEN_USUAL).map(([name, usual]) => [name, app.state[name] ?? usual]));

function genRequest(app, said = genSaid(app)) {
  const { model, text, source, image } = app.request(app.model);
  return { model, text, source, image, said, ...genHow(app) };
}

const genKey = request => JSON.stringify({ ...request, steps: 0 });

async function genAsk(app, request) {
  const key = genKey(request);
  if (!request.steps && gen.answers.has(key)) return gen.answers.get(key);
  gen.stop?.abort();
  gen.stop = new AbortController();
  const answer = await app.api.post("/api/next", request, gen.stop.signal);
  if (answer.log_probs !== null) {
    const bytes = Uint8Array.from(atob(answer.log_probs), char => char.charCodeAt(0));
    answer.raw = new Float32Array(bytes.buffer);
    answer.sorted = generateOrder(answer.raw, answer.banned);
  }
  if (gen.answers.size > 40) gen.answers.delete(gen.answers.keys().next().value);
  gen.answers.set(genKey({ ...request, said: answer.said.map(([id]) => id) }), answer);
  return answer;
}

async function genNames(app) {
  const id = app.model.id;
  if (!gen.names.has(id)) gen.names.set(id, app.api.get(`/api/models/${encodeURIComponent(id)}/vocabulary`).then(found =>
      found.pieces).catch(error => {
    gen.names.delete(id);
    throw error;
  }));
  return gen.names.get(id);
}

// ---- going on, back, and elsewhere

async function genStep(app, steps) {
  try {
    const answer = await genAsk(app, { ...genRequest(app), steps });
    const now = answer.said.map(([id]) => id), last = answer.said.at(-1);
    genGo(app, now);
    if (last) app.say(answer.over === "end" ? "The text has ended: <eos> was said." : answer.over === "length"
        ? "No more may be said here." : `${quoted(last[1])} was said, ${num(-last[2] / Math.LN2, 2)} bits.`);
  } catch (error) {
    app.fail(error);
  }
}

/** To another text; one that is left without being continued is kept as a branch. */
function genGo(app, said) {
  const now = genSaid(app), goesOn = now.every((id, at) => said[at] === id);
  const inside = now.every((id, at) => said[at] === id) || gen.branches.some(each => now.every((id, at) => each.ids[at] === id));
  if (!goesOn && !inside) gen.branches.push({ ids: now, said: gen.answer?.said ?? [] });
  gen.branches = gen.branches.filter(each => !each.ids.every((id, at) => said[at] === id)).slice(-24);
  app.set({ said: said.join(",") });
}

const genUndo = app => genSaid(app).length && genGo(app, genSaid(app).slice(0, -1));

// ---- drawing

function genText(answer) {
  const first = answer.prefix.length - answer.said.length;
  const given = answer.prefix.slice(0, first).map(([id, piece]) =>
      element("span", { className: id < GEN_SPECIALS ? "gen-mark" : "" }, piece));
  const own = answer.said.map(([id, piece, score], at) => {
    const bits = -score / Math.LN2, parts = colourOf(Math.sqrt(clamp(bits / GEN_STRONG, 0, 1)));
    const made = element("span", { className: "gen-token",
        title: `${label(piece)}: ${num(bits, 2)} bits, probability ${num(Math.exp(score))}` }, piece || "\u200b");
    made.style.setProperty("background", css(parts));
    made.style.setProperty("color", inkOn(parts));
    made.dataset.bits = bits;
    made.dataset.at = at;
    return made;
  });
  return element("p", { className: "gen-text", dir: "auto", id: "gen-text", "aria-label": "The text so far" }, ...given, ...own);
}

function genBar(app, { id, name, rank, raw, after, most, banned, drawn }) {
  const bars = [["raw", raw], ["after", after]].map(([kind, value]) => {
    const bar = element("i", { className: `gen-${kind}` });
    bar.style.setProperty("--share", value / most);
    return element("span", { className: "gen-half" }, bar, element("b", {}, kind === "after" && value === 0 ? banned ? "never said" : "cut"
        : percent(value)));
  });
  const told = `${rank}: ${quoted(name)}, ${percent(raw)}, after the filters ${after === 0 ? "nothing" : percent(after)}${drawn ? ", is drawn next" : ""}`;
  return element("li", {}, element("button",
      { type: "button", className: drawn ? "gen-bar gen-drawn" : "gen-bar", disabled: banned, "aria-label": told,
    title: banned ? "never said" : `${num(Math.log2(1 / raw), 2)} bits; click to say it`, onclick: () =>
        genGo(app, [...genSaid(app), id]), "data-id": id, "data-raw": raw, "data-after": after },
  element("span", { className: "gen-rank" }, String(rank)), element("span", { className: "gen-name" }, element("bdi", {}, label(name)),
      drawn ? element("small", {}, " drawn") : null), ...bars));
}

function genBars(app, answer, names) {
  const { order, values } = answer.sorted, after = generateKept(answer.sorted, genHow(app)), banned = new Set(answer.banned);
  const raw = Float64Array.from(answer.raw, Math.exp), ranks = Uint32Array.from(order, (_, rank) => rank).sort((a, b) =>
      raw[order[b]] - raw[order[a]] || a - b);
  const shown = ranks.slice(0, gen.shown), rest = ranks.slice(gen.shown), sum = of => rest.reduce((total, at) => total + of(at), 0);
  const tails = [sum(at => raw[order[at]]), sum(at => after[at])], most = Math.max(raw[order[ranks[0]]], after[0], ...tails, 1e-12);
  const items = [...shown].map((at, place) => genBar(app,
      { id: order[at], name: names[order[at]] ?? "", rank: place + 1, raw: raw[order[at]], after: after[at], most,
      banned: banned.has(order[at]), drawn: order[at] === answer.chosen?.id }));
  const tail = rest.length ? tails.map((value, kind) => {
    const bar = element("i", { className: kind ? "gen-after" : "gen-raw" });
    bar.style.setProperty("--share", value / most);
    return element("span", { className: "gen-half" }, bar, element("b", {}, value ? percent(value) : kind ? "cut" : "0"));
  }) : [];
  const kept = after.reduce((count, p) => count + (p > 0), 0);
  gen.bars.replaceChildren(...items);
  gen.tail.replaceChildren(...rest.length
      ? [element("div", { className: "gen-bar gen-rest" }, element("span", { className: "gen-rank" }),
      element("span", { className: "gen-name" }, `${rest.length.toLocaleString("en")} more tokens`), ...tail),
    element("button", { type: "button", onclick: () => { gen.shown += GEN_MORE; genBars(app, answer, names); } },
        `Show ${Math.min(GEN_MORE, rest.length)} more`)] : []);
  gen.measures.replaceChildren(element("dt", {}, "entropy"), element("dd", { id: "gen-entropy" }, `${num(generateBits(raw), 2)} bits`),
    element("dt", {}, "after the filters"), element("dd", {},
        `${num(generateBits(after), 2)} bits over ${kept.toLocaleString("en")} of ${values.length.toLocaleString("en")} tokens`));
}

function genBranches(app) {
  const now = genSaid(app);
  const item = each => {
    const shared = each.ids.findIndex((id, at) => now[at] !== id), from = shared < 0 ? each.ids.length : shared;
    const text = each.said.slice(from).map(([, piece]) => piece).join("") || "(the prompt alone)";
    const bits = each.said.reduce((sum, [, , score]) => sum - score / Math.LN2, 0);
    return element("li", {}, element("button",
        { type: "button", onclick: () => genGo(app, each.ids), title: `${each.ids.length} tokens, ${num(bits, 1)} bits` },
      element("small", {}, `after ${from} tokens: `), element("bdi", {}, text)));
  };
  gen.side.replaceChildren(element("h2", {}, "Branches"), gen.branches.length
      ? element("ul", { className: "gen-branches" }, gen.branches.map(item))
    : element("p", { className: "note" }, "Click any token to say it instead. What you leave is kept here."));
}

async function genDraw(app) {
  const turn = gen.turn = {};
  try {
    const [answer, names] = await Promise.all([genAsk(app, genRequest(app)), genNames(app)]);
    if (turn !== gen.turn || !gen.root) return;
    gen.answer = answer;
    gen.text.replaceChildren(genText(answer), ...answer.notes.map(note => element("p", { className: "note" }, note)));
    const over = { end: "The text has ended here: <eos> was said. Undo, or go to a branch.",
        length: "No more may be said here: undo, or go to a branch." }[answer.over];
    gen.over.replaceChildren(...over ? [element("p", { role: "status", className: "gen-ended" }, over)] : []);
    gen.main.hidden = Boolean(over);
    if (!over) genBars(app, answer, names);
    for (const button of gen.forward) button.disabled = Boolean(over);
    gen.undo.disabled = gen.again.disabled = !answer.said.length;
    genBranches(app);
  } catch (error) {
    if (turn === gen.turn) app.fail(error);
  }
}

/** The bars follow a slider at once; what would be drawn is asked for when it rests. */
function genControls(app) {
  const redraw = quietly(150, () => genDraw(app));
  const slide = (name, text, low, high, step) => {
    const shown = element("output", { className: "gen-value" });
    const input = element("input", { type: "range", min: low, max: high, step, "aria-label": text, id: `gen-${name}`, oninput: event => {
      app.state[name] = +event.target.value;
      tell();
      if (gen.answer?.sorted) genNames(app).then(names => genBars(app, { ...gen.answer, chosen: null }, names)).catch(app.fail);
      redraw();
    }, onchange: () => app.set({ [name]: app.state[name] }) });
    const tell = () => {
      input.value = genHow(app)[name];
      shown.textContent = name === "temperature" && genHow(app)[name] === 0 ? "greedy" : name === "top_k" && !genHow(app)[name] ? "all"
          : String(genHow(app)[name]);
      input.setAttribute("aria-valuetext", shown.textContent);
    };
    gen.tell.push(tell);
    tell();
    return element("label", { className: "choice" }, element("span", {}, text), input, shown);
  };
  const seed = element("input", { type: "number", id: "gen-seed", className: "gen-seed", value: genHow(app).seed, step: 1,
      "aria-label": "Seed", onchange: event => app.set({ seed: Math.trunc(+event.target.value) || 0 }) });
  gen.tell.push(() => { seed.value = genHow(app).seed; });
  const button = (text, title, act) => element("button", { type: "button", title, onclick: act }, text);
  gen.forward = [button("Step", "Say the token that is drawn (s)", () => genStep(app, 1)),
      button("Step 10", "Say ten (S)", () => genStep(app, 10))];
  gen.forward[0].className = "strong";
  gen.undo = button("Undo", "Take the last token back (u)", () => genUndo(app));
  gen.again = button("Restart", "Back to the prompt", () => genGo(app, []));
  return element("div", { className: "bar" }, ...gen.forward, gen.undo, gen.again, slide("temperature", "temperature", 0, 2, 0.05),
      slide("top_k", "top-k", 0, Math.min(app.model.vocabulary, 200), 1),
    slide("top_p", "top-p", 0.01, 1, 0.01), element("label", { className: "choice" }, element("span", {}, "seed"), seed),
    button("Greedy", "Always the likeliest", () => app.set({ temperature: 0 })), button("As it is", "No filter", () =>
        app.set({ ...GEN_USUAL, seed: app.state.seed })));
}

export const tab = {
  name: "generate", title: "Generate",
  open(root, app) {
    const where = JSON.stringify({ ...app.request(app.model), new_tokens: 0, target: 0 });
    if (gen.where && gen.where !== where) app.state.said = undefined;     // it was said after another text
    gen.where = where;
    Object.assign(gen, { root, shown: GEN_FIRST, tell: [], branches: gen.model === app.model.id ? gen.branches : [], model: app.model.id });
    for (const [name, kind] of [["text", "div"], ["over", "div"], ["bars", "ol"], ["tail", "div"], ["measures", "dl"],
        ["side", "section"]]) gen[name] = element(kind, { className: `gen-${name}` });
    gen.bars.id = "gen-bars";
    gen.bars.onkeydown = event => {
      const to = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      if (!to) return;
      event.preventDefault();
      event.target.closest("li")[to]?.querySelector("button").focus();
    };
    gen.side.setAttribute("aria-label", "Branches");
    gen.main = element("section", { "aria-label": "The next token" }, element("h2", {}, "The next token"), gen.measures,
      element("div", { className: "gen-bar gen-head" }, element("span", { className: "gen-rank" }, "#"),
          element("span", { className: "gen-name" }, "token"), element("span", { className: "gen-half" },
          "the model's own"), element("span", { className: "gen-half" }, "after the filters")), gen.bars, gen.tail);
    root.append(genControls(app), gen.text, gen.over, element("div", { className: "gen-both" }, gen.main, gen.side));
    genDraw(app);
  },
  update(app, changed) {
    if (changed.some(name => ["models", "text", "source", "image"].includes(name))) {
      if (app.state.said && !changed.includes("said")) return app.set({ said: undefined });
      gen.branches = [];
      gen.root.replaceChildren();
      return tab.open(gen.root, app);
    }
    for (const tell of gen.tell) tell();
    genDraw(app);
  },
  close() {
    gen.stop?.abort();
    gen.root = null;
  },
  keys: {
    s: ["say the token that is drawn", (event, app) => genStep(app, 1)],
    S: ["say ten tokens", (event, app) => genStep(app, 10)],
    u: ["take the last token back", (event, app) => genUndo(app)],
  },
};

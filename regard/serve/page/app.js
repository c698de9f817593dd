// The frame: models, the text, tabs, keys, theme. One state, kept in the address; every tab follows it.
import { $, element } from "./dom.js";
import { readAddress, writeAddress } from "./address.js";
import { served, Refused } from "./api.js";
import { tab as readTab } from "./tab_read.js";
import { tab as computeTab } from "./tab_compute.js";
import { tab as generateTab } from "./tab_generate.js";
import { tab as beamTab } from "./tab_beam.js";
import { tab as compareTab } from "./tab_compare.js";
import { tab as trainTab } from "./tab_train.js";
import { tab as labTab } from "./tab_lab.js";

const TABS = [readTab, computeTab, generateTab, beamTab, compareTab, trainTab, labTab];
const MOST_MODELS = 4;

/**
 * What a tab gets.
 *   app.models            what /api/models gave, all of them
 *   app.chosen            the models looked at, one to four; app.model is the first
 *   app.state             the address: {tab, models, text, source, target, track, layer, head, row, column, ...}
 *   app.set(change)       changes it, writes the address and tells the open tab (update(app, changed))
 *   app.api               get, post, binary, events: api.js
 *   app.look(model)       what the model reads of the text now: a promise, kept until the text or model changes
 *   app.say(text)         to everybody, blind people too; app.fail(error) shows what went wrong in one line
 */
export const app = {
  api: served, models: [], state: {}, looks: new Map(),

  get chosen() {
    const ids = app.state.models?.length ? app.state.models : app.models.slice(0, 1).map(model => model.id);
    return ids.map(id => app.models.find(model => model.id === id)).filter(Boolean).slice(0, MOST_MODELS);
  },
  get model() { return app.chosen[0]; },
  get tab() {
    return TABS.find(each => each.name === app.state.tab && worksFor(each)) ?? TABS.find(worksFor);
  },

  set(change) {
    const changed = Object.keys(change).filter(name => String(app.state[name] ?? "") !== String(change[name] ?? ""));
    Object.assign(app.state, change);
    writeAddress(app.state);
    if (changed.length) refresh(changed);
  },

  say(text) {
    $("said").textContent = text;
    $("said").classList.remove("wrong");
  },
  fail(error) {
    if (error.name === "AbortError") return;
    $("said").textContent = error.message;
    $("said").classList.add("wrong");
    if (!(error instanceof Refused)) console.error(error);
  },

  /** What to look at: a language model reads a text, a translator a source (and a target), a captioner an image. */
  request(model = app.model) {
    const { text, source, target, image, new_tokens } = app.state;
    const own = isText(model) ? { text: text ?? model.example } : isImage(model) ? { image: image ?? model.example } : { source: source ?? text ?? model.example };
    return { model: model.id, ...own, ...(target ? { target } : {}), ...(new_tokens && isText(model) ? { new_tokens } : {}) };
  },
  look(model = app.model) {
    const request = app.request(model), key = JSON.stringify(request);
    if (!app.looks.has(key)) {
      if (app.looks.size > 16) app.looks.delete(app.looks.keys().next().value);
      app.looks.set(key, app.api.post("/api/look", request).catch(error => {
        app.looks.delete(key);
        throw error;
      }));
    }
    return app.looks.get(key);
  },
  /** Numbers of a look; one that the server no longer holds is asked for again. */
  async numbers(look, path, signal) {
    const whole = `/api/look/${look.id}/${path}`;
    try {
      return await app.api.binary(whole, signal);
    } catch (error) {
      if (error.code !== "look_gone") throw error;
      await app.api.post("/api/look", look.request);
      return app.api.binary(whole, signal);
    }
  },
};

export const isText = model => model.task === "lm" || model.task === "masked";
export const isImage = model => model.task === "caption";
const worksFor = each => each.works(app.model, app);

// ---- drawing the frame

let open;                                // the tab that is drawn now

function refresh(changed) {
  if (changed.includes("models") || changed.includes("tab")) frame();
  if (changed.some(name => ["models", "text", "source", "target", "image"].includes(name))) input();
  if (open !== app.tab) return show();
  open.update(app, changed);
}

function show() {
  open?.close?.();
  open = app.tab;
  $("panel").replaceChildren();
  $("panel").setAttribute("aria-labelledby", `tab-${open.name}`);
  $("panel").dataset.tab = open.name;
  document.title = `${open.title} · ${app.chosen.map(model => model.name).join(", ")} · Regard`;
  open.open($("panel"), app);
}

function frame() {
  $("chips").replaceChildren(...app.models.map(chip));
  $("tabs").replaceChildren(...TABS.filter(worksFor).map(each => element("button", {
    type: "button", role: "tab", id: `tab-${each.name}`, "aria-controls": "panel", "aria-selected": String(each === app.tab),
    tabIndex: each === app.tab ? 0 : -1, onclick: () => app.set({ tab: each.name }),
  }, each.title)));
}

function chip(model) {
  const on = app.chosen.includes(model);
  const pick = event => {
    const several = event.shiftKey || event.ctrlKey || event.metaKey || app.tab?.several;
    const others = app.chosen.map(each => each.id).filter(id => id !== model.id);
    const ids = !several ? [model.id] : on && others.length ? others : [...others, model.id].slice(-MOST_MODELS);
    app.set({ models: ids, row: undefined, column: undefined, layer: undefined, head: undefined, track: undefined, target: undefined });
  };
  return element("button", { type: "button", className: "chip", "aria-pressed": String(on), onclick: pick,
    title: `${model.family} for ${model.task}, ${model.parameters.toLocaleString("en")} parameters; hold Shift to choose several` },
  model.name, element("small", {}, model.family));
}

function input() {
  const model = app.model, form = $("input");
  if (!model || isImage(model) && !app.api.live) return form.replaceChildren();
  if (isImage(model)) return form.replaceChildren(...imageInput(model));
  const name = isText(model) ? "text" : "source";
  const value = app.state[name] ?? app.state.text ?? model.example ?? "";
  const area = element("textarea", { id: "text", name, rows: Math.min(6, 1 + Math.floor(value.length / 110)), spellcheck: false, dir: "auto",
    maxLength: 10000, "aria-label": isText(model) ? "Text to read" : "Source to translate", readOnly: !app.api.live });
  area.value = value;
  area.onkeydown = event => event.key === "Enter" && !event.shiftKey && (event.preventDefault(), form.requestSubmit());
  form.onsubmit = event => {
    event.preventDefault();
    app.set({ [name]: area.value, target: undefined, row: undefined, column: undefined });
  };
  form.replaceChildren(area, element("button", { type: "submit", disabled: !app.api.live }, "Read"));
}

function imageInput(model) {
  const read = file => {
    const reader = new FileReader();
    reader.onload = () => app.set({ image: reader.result.split(",")[1], row: undefined, column: undefined });
    if (file) reader.readAsDataURL(file);
  };
  const pick = element("input", { type: "file", id: "text", accept: "image/png,image/jpeg", "aria-label": "A picture to caption", onchange: event => read(event.target.files[0]) });
  const examples = (model.examples ?? []).map(name => element("button", { type: "button", onclick: () => app.set({ image: name, row: undefined, column: undefined }) }, name));
  return [pick, ...examples];
}

// ---- theme, keys, help

function theme(name) {
  document.documentElement.dataset.theme = name ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  open?.update(app, ["theme"]);
}

export const frameKeys = {
  "/": ["go to the text", () => $("text")?.focus()],
  "?": ["these keys", () => help()],
  c: ["copy the address of this view", () => copyAddress()],
  Escape: ["clear the selection", () => app.set({ row: undefined, column: undefined })],
};

function help() {
  const keys = { ...frameKeys, ...open.keys };
  $("keys").replaceChildren(element("h2", { id: "keys-title" }, "Keys"),
    element("dl", {}, Object.entries(keys).flatMap(([key, [what]]) => [element("dt", {}, element("kbd", {}, key === " " ? "Space" : key)), element("dd", {}, what)])),
    element("form", { method: "dialog" }, element("button", {}, "Close")));
  $("keys").showModal();
}

export async function copyAddress() {
  try {
    await navigator.clipboard.writeText(location.href);
    app.say("The address of this view is copied.");
  } catch {                              // not allowed here
    app.say(location.href);
  }
}

function press(event) {
  if (event.target.matches("input, textarea, select, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  if (event.target.matches("[role=tab]") && /^Arrow(Left|Right)$/.test(event.key)) return moveTab(event);
  const found = open?.keys?.[event.key] ?? frameKeys[event.key];
  if (!found || event.target.matches("button, a, summary") && (event.key === " " || event.key === "Enter")) return;
  event.preventDefault();
  found[1](event, app);
}

function moveTab(event) {
  const all = [...$("tabs").children], at = all.indexOf(event.target) + (event.key === "ArrowRight" ? 1 : -1);
  all[(at + all.length) % all.length].click();
  $(`tab-${open.name}`).focus();
}

/** Begins with the models of an api (served or embedded). */
export async function begin(api = served, first = {}) {
  app.api = api;
  app.state = { ...first, ...readAddress() };
  theme(app.state.theme);
  addEventListener("keydown", press);
  addEventListener("hashchange", () => {
    const state = readAddress(), changed = [...new Set([...Object.keys(app.state), ...Object.keys(state)])];
    app.state = state;
    refresh(changed.filter(name => name !== "theme"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.state.theme || theme());
  $("theme").onclick = () => {
    const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    app.state.theme = other;
    writeAddress(app.state);
    theme(other);
  };
  $("help").onclick = help;
  try {
    app.models = (await api.get("/api/models")).models;
    if (!app.models.length) return app.say("There is no model here: start with `regard serve RUN`.");
    frame();
    input();
    show();
  } catch (error) {
    app.fail(error);
  }
}

if ($("tabs")) begin();

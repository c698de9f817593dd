// The frame: models, the text, tabs, keys, theme, sharing. One state, kept in the address; every tab follows it.
// Which tabs there are says main.js, or the end of a file that was saved: see `begin`.
import { $, element } from "./dom.js";
import { putAddress, readAddress, writeAddress } from "./address.js";
import { served, Refused } from "./api.js";

const MOST_MODELS = 4;
const MOST_LOOKS = 16;
const PICTURES = [1, 2, 3, 4, 5, 6].map(number => `shapes-${number}`);        // the server draws these whenever they are asked for
let tabs = [];

/**
 * What a tab gets.
 *   app.models            what /api/models gave, all of them
 *   app.chosen            the models looked at, one to four; app.model is the first
 *   app.state             the address: {tab, models, text, source, target, track, layer, head, row, column, ...}
 *   app.set(change)       changes it, writes the address and tells the open tab (update(app, changed))
 *   app.api               get, post, binary, events: api.js
 *   app.look(model)       what the model reads of the text now: a promise, kept until the text or model changes
 *   app.numbers(look, path)   binary numbers of a look, e.g. "self/map?layer=1&head=2"
 *   app.say(text)         to everybody, blind people too; app.fail(error) shows what went wrong in one line
 *   app.note(name, text)  what the address asks for and is not there, until that part of it changes; no text takes it back
 */
export const app = {
  api: served, models: [], state: {}, looks: new Map(),

  get chosen() {
    const asked = (app.state.models ?? []).map(id => app.models.find(model => model.id === id)).filter(Boolean).slice(0, MOST_MODELS);
    return asked.length ? asked : [app.models.find(model => !model.problem) ?? app.models[0]].filter(Boolean);
  },
  get model() { return app.chosen[0]; },
  get tab() {
    return tabs.find(each => each.name === app.state.tab && worksFor(each)) ?? tabs.find(worksFor);
  },

  set(change) {
    const changed = Object.keys(change).filter(name => String(app.state[name] ?? "") !== String(change[name] ?? ""));
    Object.assign(app.state, change);
    writeAddress(app.state);
    for (const name of changed) app.note(name);
    checkAddress(changed);
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

  note(name, text) {
    if (text) appNotes.set(name, text);
    else appNotes.delete(name);
    $("notice").textContent = [...appNotes.values()].join(" ");
    $("notice").hidden = !appNotes.size;
  },

  /** What to look at: a language model reads a text, a translator a source (and a target), a captioner an image. */
  request(model = app.model) {
    const { text, source, target, image, new_tokens } = app.state;
    const own = isText(model) ? { text: text ?? model.example } : isImage(model) ? { image: image ?? (model.example || PICTURES[0]) }
        : { source: source ?? text ?? model.example };
    return { model: model.id, ...own, ...(target ? { target } : {}),
        ...(new_tokens && hasField(model, "new_tokens") ? { new_tokens } : {}) };
  },
  look(model = app.model) {
    const request = app.request(model), key = JSON.stringify(request);
    if (!app.looks.has(key)) {
      if (app.looks.size >= MOST_LOOKS) app.looks.delete(app.looks.keys().next().value);
      app.looks.set(key, app.api.post("/api/look", request).then(look => ({ ...look, request })).catch(error => {
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
      look.id = (await app.api.post("/api/look", look.request)).id;
      return app.api.binary(`/api/look/${look.id}/${path}`, signal);
    }
  },
};

/** Of what a request to a model may have (fields, from its task's card) the first is what it reads: text, source or image. */
export const isText = model => model.fields?.[0] === "text";
export const isImage = model => model.fields?.[0] === "image";
export const hasField = (model, name) => Boolean(model.fields?.includes(name));
const appNotes = new Map();

/** Says what these parts of the address name that there is not, instead of opening something else without a word. */
function checkAddress(changed) {
  const { models, tab } = app.state, shown = app.chosen.map(model => model.name).join(", ");
  if (changed.includes("models")) {
    const strange = (models ?? []).filter(id => !app.models.some(model => model.id === id)), hurt = app.chosen.filter(model =>
        model.problem);
    app.note("models", [...strange.length ? [`There is no model ${strange.join(", ")} here: ${shown} is shown.`] : [],
      ...hurt.map(model => `${model.name} cannot be used: ${model.problem}.`)].join(" "));
  }
  if (changed.includes("tab") || changed.includes("models")) {
    const found = tabs.find(each => each.name === tab);
    app.note("tab", !tab || found && worksFor(found) ? ""
        : `${found ? `${found.title} has nothing to show of ${shown}` : `There is no view ${tab}`}: this is ${app.tab.title}.`);
  }
  if (changed.includes("preset")) checkPreset(app.state.preset);
}

async function checkPreset(name) {
  if (!name || !app.api.live) return;
  const { presets, worked } = await app.api.get("/api/presets");
  if (app.state.preset === name && ![...presets, ...worked].some(each => each.name === name)) app.note("preset",
      `There is no example ${name}: the Lab tab lists them.`);
}

const worksFor = each => each.works(app.model, app);

// ---- drawing the frame

let openTab;                             // the tab that is drawn now

function refresh(changed) {
  if (changed.includes("models") || changed.includes("tab")) frame();
  if (changed.some(name => ["models", "text", "source", "target", "image"].includes(name))) input();
  if (openTab !== app.tab) return show();
  openTab.update(app, changed);
}

function show() {
  openTab?.close?.();
  openTab = app.tab;
  for (const name of ["track", "runs"]) app.note(name);          // what the tab before had to say
  $("panel").replaceChildren();
  $("panel").setAttribute("aria-labelledby", `tab-${openTab.name}`);
  $("panel").dataset.tab = openTab.name;
  if (app.api.live) document.title = `${openTab.title} · ${app.chosen.map(model => model.name).join(", ")} · Regard`;
  openTab.open($("panel"), app);
}

function frame() {
  $("chips").replaceChildren(...app.models.map(chip));
  $("tabs").hidden = tabs.length < 2;
  $("tabs").replaceChildren(...tabs.filter(worksFor).map(each => element("button", {
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
    app.set({ models: ids, row: undefined, column: undefined, layer: undefined, head: undefined, track: undefined, target: undefined,
        frame: undefined });
  };
  return element("button", { type: "button", className: "chip", "aria-pressed": String(on), onclick: pick,
    title: model.problem ?? (app.api.live
        ? `${model.family} for ${model.task}, ${model.parameters.toLocaleString("en")} parameters; hold Shift to choose several`
        : undefined) },
  model.name, element("small", {}, model.family));
}

function input() {
  const model = app.model, form = $("input");
  if (!model || !app.api.live) return form.replaceChildren();
  if (isImage(model)) return form.replaceChildren(...imageInput(model));
  const name = isText(model) ? "text" : "source";
  const value = app.state[name] ?? app.state.text ?? model.example ?? "";
  const area = element("textarea", { id: "text", name, rows: Math.min(6, 1 + Math.floor(value.length / 110)), spellcheck: false,
      dir: "auto",
    maxLength: 10000, "aria-label": isText(model) ? "Text to read" : "Source to translate" });
  area.value = value;
  area.onkeydown = event => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    form.requestSubmit();
  };
  form.onsubmit = event => {
    event.preventDefault();
    app.set({ [name]: area.value, target: undefined, row: undefined, column: undefined, frame: undefined });
  };
  const examples = isText(model) ? textExamples(model) : [];
  form.replaceChildren(area, element("button", { type: "submit" }, "Read"), ...examples);
}

/** Prompts of the corpus that the model learned, one a button: its first words, and how long it is. */
function textExamples(model) {
  const open = text => app.set({ text, target: undefined, row: undefined, column: undefined, frame: undefined });
  const label = words => `${words.slice(0, 4).join(" ")}${words.length > 4 ? ` … ${words.length} words` : ""}`;
  return (model.examples ?? []).map(text => element("button", { type: "button", title: text, onclick: () => open(text) },
      label(text.split(" "))));
}

function imageInput(model) {
  const read = file => {
    const reader = new FileReader();
    reader.onload = () => app.set({ image: reader.result.split(",")[1], row: undefined, column: undefined });
    if (file) reader.readAsDataURL(file);
  };
  const pick = element("input", { type: "file", id: "text", accept: "image/png,image/jpeg", "aria-label": "A picture to caption",
      onchange: event => read(event.target.files[0]) });
  const examples = PICTURES.map(name => element("button",
      { type: "button", onclick: () => app.set({ image: name, row: undefined, column: undefined }) }, name));
  return [pick, ...examples];
}

// ---- theme, keys, help

function theme(name) {
  document.documentElement.dataset.theme = ["light", "dark"].includes(name) ? name
      : (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  openTab?.update(app, ["theme"]);
}

export const frameKeys = {
  "/": ["go to the text", () => $("text")?.focus()],
  "?": ["these keys", () => help()],
  c: ["copy the address of this view", () => copyAddress()],
  Escape: ["clear the selection", () => app.set({ row: undefined, column: undefined })],
};

function help() {
  const keys = { ...frameKeys, ...openTab.keys };
  $("keys").replaceChildren(element("h2", { id: "keys-title" }, "Keys"),
    element("dl", {}, Object.entries(keys).flatMap(([key, [what]]) =>
        [element("dt", {}, element("kbd", {}, key === " " ? "Space" : key)), element("dd", {}, what)])),
    element("form", { method: "dialog" }, element("button", {}, "Close")));
  $("keys").showModal();
}

export async function copyAddress() {
  putAddress(app.state);
  try {
    await navigator.clipboard.writeText(location.href);
    app.say("The address of this view is copied.");
  } catch {                              // not allowed here
    app.say(location.href);
  }
}

function press(event) {
  if (event.target.matches("input, textarea, select, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey
      || $("keys").open) return;
  if (event.target.matches("[role=tab]") && /^Arrow(Left|Right)$/.test(event.key)) return moveTab(event);
  const found = openTab?.keys?.[event.key] ?? frameKeys[event.key];
  if (!found || event.target.matches("button, a, summary") && (event.key === " " || event.key === "Enter")) return;
  event.preventDefault();
  found[1](event, app);
}

function moveTab(event) {
  const all = [...$("tabs").children], at = all.indexOf(event.target) + (event.key === "ArrowRight" ? 1 : -1);
  all[(at + all.length) % all.length].click();
  $(`tab-${openTab.name}`).focus();
}

// ---- sharing: the address, and what the open tab offers (tab.share(app) gives [[what, function of app], ...])

function shareMenu(wanted) {
  const button = $("share"), menu = $("share-menu");
  button.setAttribute("aria-expanded", String(wanted));
  menu.hidden = !wanted;
  if (!wanted) return;
  const offers = [["Copy the address of this view", copyAddress], ...(openTab.share?.(app) ?? [])];
  menu.replaceChildren(...offers.map(([what, act]) => element("button", { type: "button", role: "menuitem", onclick: () => {
    shareMenu(false);
    button.focus();
    Promise.resolve(act(app)).catch(app.fail);
  } }, what)));
  menu.firstChild.focus();
}

function menuKeys(event) {
  const items = [...$("share-menu").children], at = items.indexOf(document.activeElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") shareMenu(false), $("share").focus();
  else if (step) items[(at + step + items.length) % items.length].focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** An example is opened where it can be seen. */
const withTab = state => state.preset && !state.tab ? { ...state, tab: "compute" } : state;

/** Begins with these tabs and the models of an api (served or embedded). */
export async function begin(all, api = served, first = {}) {
  tabs = all;
  app.api = api;
  app.state = withTab({ ...first, ...readAddress() });
  theme(app.state.theme);
  addEventListener("keydown", press);
  addEventListener("hashchange", () => {
    const state = withTab(readAddress()), changed = [...new Set([...Object.keys(app.state), ...Object.keys(state)])];
    app.state = state;
    for (const name of changed) app.note(name);
    checkAddress(changed);
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
  $("share").onclick = () => shareMenu($("share-menu").hidden);
  $("share-menu").onkeydown = menuKeys;
  addEventListener("click", event => event.target.closest(".sharing") || $("share-menu").hidden || shareMenu(false));
  try {
    app.models = (await api.get("/api/models")).models;
    if (!app.models.length) return app.say("There is no model here: start with `regard serve RUN`.");
    checkAddress(["models", "tab", "preset"]);
    frame();
    input();
    show();
  } catch (error) {
    app.fail(error);
  }
}

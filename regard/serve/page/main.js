// Begins the served page. What most people look at first is here at once; the other tabs are fetched when they are opened.
import { begin } from "./app.js";
import { tab as readTab } from "./tab_read.js";

/** A tab whose file is fetched when it is first opened: until then only its name is known. */
function fetched(name, title, works, load, more = {}) {
  let real, root;                        // root: where it is open now
  return {
    name, title, works, ...more,
    async open(place, app) {
      root = place;
      try {
        real ??= (await load()).tab;
      } catch (error) {
        return app.fail(error);
      }
      if (root === place && place.dataset.tab === name) real.open(place, app);
      else root = undefined;
    },
    update: (app, changed) => real && root && real.update(app, changed),
    close() {
      if (real && root) real.close?.();
      root = undefined;
    },
    get keys() { return real?.keys ?? {}; },
    get share() { return real?.share; },
  };
}

const writes = model => Boolean(model) && model.task !== "masked", live = (model, app) => app.api.live;

begin([
  readTab,
  fetched("compute", "Compute", (model, app) => Boolean(model?.tabs?.includes("compute")) && live(model, app), () => import("./tab_compute.js")),
  fetched("generate", "Generate", writes, () => import("./tab_generate.js")),
  fetched("beam", "Beam", writes, () => import("./tab_beam.js")),
  fetched("compare", "Compare", writes, () => import("./tab_compare.js"), { several: true }),
  fetched("train", "Train", live, () => import("./tab_train.js")),
  fetched("lab", "Lab", live, () => import("./tab_lab.js")),
]);

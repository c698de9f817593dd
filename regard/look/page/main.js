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

const live = (model, app) => app.api.live;
const offered = name => (model, app) => Boolean(model?.tabs?.includes(name)) && live(model, app);      // by the card of its task

begin([
  readTab,
  fetched("compute", "Compute", offered("compute"), () => import("./tab_compute.js")),
  fetched("generate", "Generate", offered("generate"), () => import("./tab_generate.js")),
  fetched("beam", "Beam", offered("beam"), () => import("./tab_beam.js")),
  fetched("compare", "Compare", offered("compare"), () => import("./tab_compare.js"), { several: true }),
  fetched("train", "Train", live, () => import("./tab_train.js")),
  fetched("lab", "Lab", live, () => import("./tab_lab.js")),
]);

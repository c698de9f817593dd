// What the page asks of its server. In a file of its own, `embedded` answers instead: see the end.
import { unpack } from "./payload.js";

/** What the server said was wrong, as one line for a person. */
export class Refused extends Error {
  constructor(status, error) {
    super(error?.message ?? `the server answered ${status}`);
    this.status = status;
    this.code = error?.code;
  }
}

async function checked(response) {
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new Refused(response.status, body?.error);
}

const reached = request => request.catch(error => {
  if (error.name === "AbortError") throw error;
  throw new Refused(0, { message: "the server cannot be reached: is `regard serve` still running?" });
});

export const served = {
  live: true,
  async get(path, signal) {
    return (await checked(await reached(fetch(path, { signal })))).json();
  },
  async binary(path, signal) {
    return unpack(await (await checked(await reached(fetch(path, { signal })))).arrayBuffer());
  },
  async post(path, body, signal) {
    const headers = { "Content-Type": "application/json" };
    return (await checked(await reached(fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal })))).json();
  },
  events: path => new EventSource(path),
  picture: look => `/api/look/${look.id}/image.png`,
};

/** Answers from what stands in the document, for a file without a server; `looks` is read_local.js. */
export function embeddedIn(models, looks) {
  const only = value => {
    if (value === undefined) throw new Refused(404, { message: "this file holds only the view it was saved with" });
    return value;
  };
  return {
    live: false,
    get: async path => only(path === "/api/models" ? { models } : undefined),
    post: async (path, body) => only(path === "/api/look" ? looks.look(body) : undefined),
    binary: async path => looks.numbers(path),
    picture: look => looks.picture(look),
  };
}

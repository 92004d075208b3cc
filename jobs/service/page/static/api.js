// The service, asked with the token that a person gave; every failure is one sentence.

import { sentence } from "./format.js";

const KEPT = "colocate.token";
const PATIENCE = 30_000;

/** Why there is no answer, as a sentence; `signIn` where a token would help. */
export class Refused extends Error {
  constructor(said, signIn = false) {
    super(said);
    this.signIn = signIn;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (value) => sessionStorage.setItem(KEPT, value),
  forget: () => sessionStorage.removeItem(KEPT),
};

function where(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

async function asked(path, query, options) {
  const headers = { Accept: "application/json", ...options.headers };
  const known = token.get();
  if (known) headers.Authorization = `Bearer ${known}`;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), PATIENCE);
  const signal = options.signal ? AbortSignal.any([options.signal, late.signal]) : late.signal;
  try {
    const answer = await fetch(where(path, query), {
      ...options,
      headers,
      signal,
      cache: "no-store",
      credentials: "same-origin",
    });
    return await read(answer, known);
  } catch (error) {
    if (error instanceof Refused || options.signal?.aborted) throw error;
    if (late.signal.aborted) throw new Refused(`The service did not answer within ${PATIENCE / 1000} s.`);
    throw new Refused(
      error instanceof SyntaxError
        ? "The service's answer was no JSON."
        : "The service cannot be reached; what is shown is what was last known.",
    );
  } finally {
    clearTimeout(timer);
  }
}

async function read(answer, known) {
  if (answer.ok) return answer.json();
  if (answer.status === 401) {
    const bearer = (answer.headers.get("WWW-Authenticate") ?? "").toLowerCase().startsWith("bearer");
    if (!bearer) throw new Refused("The service asks for a client certificate.");
    throw new Refused(known ? "The service does not accept this token." : "", true);
  }
  throw new Refused(await problem(answer));
}

async function problem(answer) {
  try {
    const told = await answer.json();
    return sentence(told.detail || told.title);
  } catch {
    return `The service answered with status ${answer.status}.`;
  }
}

/** GET as JSON; raises `Refused`. */
export const get = (path, query = {}, signal = undefined) => asked(path, query, { signal });

/** POST a text, and its answer as JSON; raises `Refused`. */
export const post = (path, body, query = {}) =>
  asked(path, query, { method: "POST", body, headers: { "Content-Type": "application/yaml" } });

// Recent decisions, with their reasons where they are asked for.

import { get } from "./api.js";
import { byId, h, newest, reconcile, text } from "./dom.js";
import { count, milliseconds, sentence, time } from "./format.js";

const LIMIT = 200;
const FIRST = 20;
const NODES = 5;
const ask = newest(get);
const open = new Set();
const told = new Map();
let most = FIRST;
let fetched = { total: 0, items: [] };

const FOLLOWED = new Map([
  [true, "yes"],
  [false, "no"],
]);

function reasons(document) {
  const found = document?.reasons ?? [];
  const nodes = document?.nodes ?? [];
  return [
    found.length
      ? h(
          "ul",
          {},
          found.map((each) => h("li", {}, sentence(each.sentence), " ", h("code", { class: "quiet" }, each.rule))),
        )
      : h("p", { class: "quiet" }, "The record holds no reasons."),
    nodes.length
      ? h(
          "div",
          {},
          h("p", {}, `Nodes, the best of ${count(nodes.length)} first:`),
          h(
            "ol",
            {},
            nodes
              .slice(0, NODES)
              .map((each) =>
                h("li", {}, each.name, h("span", { class: "quiet" }, ` ${(each.reasons ?? []).join("; ")}`)),
              ),
          ),
        )
      : null,
  ].filter((each) => each !== null);
}

async function fill(row, decision) {
  const cell = row.firstElementChild;
  if (!told.has(decision)) {
    cell.replaceChildren(h("p", { class: "quiet" }, "Looking it up."));
    try {
      told.set(decision, (await get(`v1/decisions/${encodeURIComponent(decision)}`)).document);
    } catch (error) {
      cell.replaceChildren(h("p", { class: "problem", role: "alert" }, error.message || "The token is needed."));
      return;
    }
  }
  cell.replaceChildren(...reasons(told.get(decision)));
}

function rows(one) {
  const name = `${one.namespace}/${one.pod || "(not named yet)"}`;
  const id = `why-${one.decision}`;
  const details = h("tr", { class: "details", id, hidden: !open.has(one.decision) }, h("td", { colspan: 10 }));
  const toggle = h(
    "button",
    {
      type: "button",
      "aria-expanded": open.has(one.decision),
      "aria-controls": id,
      "aria-label": `Reasons for ${name}`,
      "data-focus": one.decision,
      on: {
        click: () => {
          details.hidden = !details.hidden;
          toggle.setAttribute("aria-expanded", String(!details.hidden));
          if (details.hidden) open.delete(one.decision);
          else {
            open.add(one.decision);
            fill(details, one.decision);
          }
        },
      },
    },
    "Reasons",
  );
  if (open.has(one.decision)) fill(details, one.decision);
  const outcome = one.satisfiable ? one.outcome.replace("_", " ") : `${one.outcome.replace("_", " ")}, unsatisfiable`;
  return [
    h(
      "tr",
      {},
      h("td", {}, time(one.at)),
      h("th", { scope: "row" }, name),
      h("td", {}, one.function || h("span", { class: "quiet" }, "unknown")),
      h("td", {}, one.mode),
      h("td", {}, outcome),
      h("td", {}, one.node ?? "–"),
      h("td", {}, FOLLOWED.get(one.followed) ?? "–"),
      h("td", { class: "number" }, milliseconds(one.p50_ms)),
      h("td", { class: "number" }, milliseconds(one.usual_ms)),
      h("td", {}, toggle),
    ),
    details,
  ];
}

/** Show those of the fetched decisions that match the filter. */
export function filter() {
  const wanted = byId("decisions-search").value.trim().toLowerCase();
  const matches = (one) =>
    [one.namespace, one.pod, one.function, one.node].some((each) => (each ?? "").toLowerCase().includes(wanted));
  const shown = wanted ? fetched.items.filter(matches) : fetched.items;
  const last = fetched.items.length;
  const page = shown.slice(0, most);
  const matching = wanted ? ` that match “${wanted}”, of the last ${count(last)}` : "";
  const whole = page.length === shown.length;
  const of = whole ? count(shown.length) : `The newest ${count(page.length)} of ${count(shown.length)}`;
  text(byId("decisions-count"), `${of} ${shown.length === 1 ? "decision" : "decisions"}${matching}.`);
  byId("decisions-more").hidden = whole;
  reconcile(byId("decision-rows"), page, (one) => one.decision, rows);
}

export function more() {
  most = LIMIT;
  filter();
}

/** Show the newest decisions of `cluster`. */
export async function refresh(cluster) {
  const query = { cluster, limit: LIMIT, mode: byId("decisions-mode").value, outcome: byId("decisions-outcome").value };
  const found = await ask("v1/decisions", query);
  if (!found) return;
  fetched = found;
  filter();
}

// Nodes with their load and functions.

import { get } from "./api.js";
import { byId, h, newest, reconcile, text } from "./dom.js";
import { bytes, cores, count, percent, time } from "./format.js";

const PAGE = 50;
const MOST = 1000;
const FEW = 8;
const ask = newest(get);
let limit = PAGE;

function bar(share) {
  const filled = h("span", { class: share >= 0.9 ? "full" : share >= 0.7 ? "high" : "" });
  filled.style.width = `${Math.min(100, Math.max(0, 100 * share))}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, filled);
}

function use(share, used, of) {
  if (share === null) return h("span", { class: "quiet" }, "not measured");
  return [bar(share), h("span", { class: "share" }, percent(share)), h("span", { class: "quiet" }, `${used} of ${of}`)];
}

function state(node) {
  const [kind, mark, word] = !node.ready
    ? ["bad", "✖", "not ready"]
    : node.schedulable
      ? ["good", "●", "ready"]
      : ["fair", "▲", "cordoned"];
  return h("span", { class: `state ${kind}` }, h("span", { "aria-hidden": "true", class: "mark" }, mark), ` ${word}`);
}

const chip = (one) =>
  h(
    "li",
    {},
    h("span", { class: "name" }, one.function),
    h("span", { class: "quiet" }, ` ${count(one.pods)}; ${one.running >= 0.005 ? one.running.toFixed(2) : "0"}`),
  );

/** Functions with pods first; those that only ran here, and what is beyond a few, are behind "more". */
function functions(node) {
  if (!node.functions.length) return h("span", { class: "quiet" }, "none");
  const there = node.functions.filter((one) => one.pods).slice(0, FEW);
  const rest = node.functions.slice(there.length);
  const few = h("ul", { class: "chips" }, there.map(chip));
  if (!rest.length) return few;
  const untold = node.functions_total - node.functions.length;
  const more = h("ul", { class: "chips" }, rest.map(chip), untold ? h("li", {}, `and ${count(untold)} more`) : null);
  const number = count(node.functions_total - there.length);
  const name = there.length ? `${number} more` : `${number} without pods`;
  const summary = h("summary", { "data-focus": node.node, "aria-label": `${name} functions on ${node.node}` }, name);
  return [there.length ? few : null, h("details", {}, summary, more)];
}

const row = (node) => [
  h(
    "tr",
    {},
    h("th", { scope: "row" }, node.node),
    h("td", {}, state(node)),
    h("td", { class: "use" }, use(node.cpu_ratio, cores(node.cpu_used_cores), `${cores(node.cpu_cores)} cores`)),
    h("td", { class: "use" }, use(node.memory_ratio, bytes(node.memory_used_bytes), bytes(node.memory_bytes))),
    h("td", { class: "number" }, count(node.pods_now)),
    h("td", {}, functions(node)),
    h("td", {}, time(node.used_at)),
    h("td", {}, h("code", {}, node.node_type || "–")),
  ),
];

/** Show the busiest nodes of `cluster` that match the search. */
export async function refresh(cluster) {
  const search = byId("nodes-search").value.trim();
  const found = await ask("v1/loads", { cluster, search, limit });
  if (!found) return;
  const matching = search ? ` that match “${search}”` : "";
  const shown = found.items.length;
  text(
    byId("nodes-count"),
    shown < found.total
      ? `The ${count(shown)} busiest of ${count(found.total)} nodes${matching}.`
      : `${count(found.total)} ${found.total === 1 ? "node" : "nodes"}${matching}, the busiest first.`,
  );
  byId("nodes-more").hidden = shown >= found.total || limit >= MOST;
  reconcile(byId("node-rows"), found.items, (node) => node.node, row);
}

export const fewer = () => {
  limit = PAGE;
};
export const more = () => {
  limit = Math.min(MOST, 2 * limit);
};

// Why a pair is told as it is.

import { get } from "./api.js";
import { byId, h, table } from "./dom.js";
import { count, interval, milliseconds, percent, sentence, time } from "./format.js";

let back = null;
let asking = null;

const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, ...value));
const said = (name, sentenceOf) => (sentenceOf ? h("p", {}, h("strong", {}, `${name}: `), sentence(sentenceOf)) : null);

function estimate(own) {
  if (own.slowdown === null) return null;
  const beyond = own.beyond_chance;
  const chance = beyond === null ? "" : `, ${beyond ? "beyond" : "within"} chance among all pairs`;
  return fact("By its own evidence", `${percent(own.slowdown, true)}, standard error ${percent(own.error)}${chance}`);
}

function figures(told) {
  const seen = told.evidence;
  const of = seen.runs ? ` of ${count(seen.runs)}` : "";
  return h(
    "dl",
    {},
    fact("Status", told.status.replace("_", " ")),
    fact("Slowdown", percent(told.slowdown, true)),
    fact("90% interval", interval(told.low, told.high)),
    fact("Probability", told.probability === null ? "–" : told.probability.toFixed(2)),
    fact("Effective overlaps", count(seen.effective_overlaps)),
    fact("Runs that met it", `${count(seen.activations)}${of}`),
    seen.alone === null ? null : fact("Runs that met nobody", count(seen.alone)),
    estimate(told.estimate),
    told.window_start ? fact("Seen from", time(told.window_start)) : null,
    told.window_end ? fact("until", time(told.window_end)) : null,
  );
}

function places(told) {
  const rows = told.evidence.nodes.map((each) => [each.node, count(each.runs), time(each.from), time(each.to)]);
  return rows.length ? table("Runs beside it, by node", ["Node", "#Runs", "From", "To"], rows.slice(0, 20)) : null;
}

function listed(pairs, shown) {
  return Object.entries(pairs)
    .map(([name, value]) => `${name || "any node"} ${shown(value)}`)
    .join(", ");
}

function other(row) {
  if (!row) return null;
  const pair = `${row.victim} beside ${row.aggressor}: ${row.status.replace("_", " ")}`;
  if (row.slowdown === null) return pair;
  const sure = `probability ${(row.probability ?? 0).toFixed(2)}`;
  return `${pair}, ${percent(row.slowdown)} longer (${interval(row.low, row.high)}), ${sure}`;
}

const CLASSES = ["cpu", "memory", "network", "disk"];

/** What a function uses, as its profile over all node types says. */
function profile(name, rows) {
  const [row] = rows;
  if (!row) return h("li", {}, `${name}: no profile`);
  const classes = CLASSES.map((each) => `${each} ${row[each] || "unknown"}`).join(", ");
  const time = row.p50_ms === null ? "" : `; median run ${milliseconds(row.p50_ms)}`;
  const most = row.dominant ? `; dominant: ${row.dominant}` : "";
  return h("li", {}, `${name}: ${classes}${most}${time} (${row.source || "unknown"}).`);
}

async function profiles(cluster, names, signal) {
  const asked = [...new Set(names)];
  const found = await Promise.all(asked.map((name) => get("v1/functions", { function: name, cluster }, signal)));
  const rows = asked.map((name, place) => profile(name, found[place].items));
  return h("div", {}, h("h4", {}, "What they use"), h("ul", {}, rows));
}

function explained(told) {
  return [
    h("p", { class: "meaning" }, sentence(told.meaning)),
    figures(told),
    places(told),
    said("Other nodes", told.placebo?.meaning),
    said("The obvious comparison", told.naive?.meaning),
    said("Held constant, and how much each moves the run time", listed(told.controls, (value) => percent(value))),
    said("Undisturbed run time by node type", listed(told.base_ms, milliseconds)),
    said("The other way", other(told.other_direction)),
    told.missing.length
      ? h("div", {}, h("h4", {}, "To know more"), h("ul", {}, told.missing.map((each) => h("li", {}, sentence(each)))))
      : null,
    told.model?.model ? h("p", { class: "quiet" }, "Model ", h("code", {}, told.model.model), ".") : null,
  ].filter((each) => each !== null);
}

/** Show the evidence of a pair; closing it leads back to `cell`. */
export async function show(cluster, victim, aggressor, cell) {
  asking?.abort();
  asking = new AbortController();
  const own = asking;
  back = () => (cell.isConnected ? cell : document.querySelector("#map [tabindex='0']"))?.focus();
  byId("evidence-head").textContent = `${victim} beside ${aggressor}`;
  byId("evidence-body").replaceChildren(h("p", { class: "quiet" }, "Looking it up."));
  byId("evidence").hidden = false;
  byId("evidence-head").focus();
  try {
    const [found, uses] = await Promise.all([
      get("v1/evidence", { victim, aggressor, cluster }, own.signal),
      profiles(cluster, [victim, aggressor], own.signal),
    ]);
    byId("evidence-body").replaceChildren(...found.items.flatMap(explained), uses);
  } catch (error) {
    if (own.signal.aborted) return;
    byId("evidence-body").replaceChildren(h("p", { class: "problem" }, error.message || "The token is needed."));
    throw error;
  }
}

export function close() {
  if (byId("evidence").hidden) return;
  asking?.abort();
  byId("evidence").hidden = true;
  back?.();
}

export function start() {
  byId("evidence-close").addEventListener("click", close);
  byId("evidence").addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
}

// Pipeline health: the snapshot's age, and every source.

import { get } from "./api.js";
import { byId, h, reconcile, text } from "./dom.js";
import { count, span, time } from "./format.js";

const MARKS = { ok: "●", partial: "▲", failed: "✖", timeout: "✖" };
const KINDS = { ok: "good", partial: "fair" };

const state = (one) => {
  const outcome = one.outcome || "never run";
  const kind = KINDS[one.outcome] ?? (one.outcome ? "bad" : "none");
  const why = one.reason && one.reason !== one.outcome ? `: ${one.reason.replaceAll("_", " ")}` : "";
  return h(
    "span",
    { class: `state ${kind}` },
    h("span", { "aria-hidden": "true", class: "mark" }, MARKS[one.outcome] ?? "○"),
    ` ${outcome}${why}`,
  );
};

const row = (one) => [
  h(
    "tr",
    {},
    h("th", { scope: "row" }, one.source),
    h("td", {}, state(one)),
    h("td", { class: "number age" }),
    h("td", {}, time(one.last_success)),
    h("td", {}, time(one.watermark)),
    h("td", {}, time(one.last_attempt)),
    h("td", { class: "number" }, count(one.rows_total)),
    h("td", { class: "number" }, count(one.refused)),
    h("td", { class: "number" }, count(one.errors_total)),
    h("td", { class: "of-cluster" }, one.cluster),
  ),
];

function summary(told) {
  const parts = [h("strong", {}, "Snapshot "), h("code", {}, told.snapshot), " made ", time(told.created)];
  parts.push(`, ${span(told.age_s)} ago`);
  if (told.stale) parts.push(h("strong", { class: "bad" }, ` (stale: only stated needs are advised)`));
  const failing = told.items.filter((each) => each.outcome && each.outcome !== "ok");
  const whole = `${told.total - failing.length} of ${told.total} sources were whole when last collected`;
  const which = failing.map((each) => `${each.source} ${each.outcome}`).join(", ");
  parts.push(`. ${whole}${which ? `; ${which}` : ""}.`);
  return parts;
}

/** Show health; returns the clusters that there are. */
export async function refresh() {
  const told = await get("v1/sources");
  byId("snapshot").replaceChildren(...summary(told));
  document.body.classList.toggle("one-cluster", told.clusters.length < 2);
  const rows = byId("sources");
  // Ages differ each time: told apart, so that rows in which nothing else changed stay as they are.
  reconcile(rows, told.items.map(({ staleness_s: _, ...one }) => one), (one) => `${one.cluster}/${one.source}`, row);
  rows.querySelectorAll(".age").forEach((cell, place) => text(cell, span(told.items[place].staleness_s)));
  return told.clusters;
}

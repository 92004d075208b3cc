// Consistent regions of stream jobs; the section is there only where there are some.

import { get } from "./api.js";
import { byId, h, newest, reconcile, text } from "./dom.js";
import { count, milliseconds, time } from "./format.js";

const MOST = 200;
const ask = newest(get);

function state(region) {
  const [kind, mark] = region.healthy ? ["good", "●"] : ["bad", "✖"];
  const health = region.healthy ? "healthy" : "not healthy";
  return h(
    "span",
    { class: `state ${kind}` },
    h("span", { "aria-hidden": "true", class: "mark" }, mark),
    ` ${region.state}, ${health}`,
  );
}

const row = (region) => [
  h(
    "tr",
    {},
    h("th", { scope: "row" }, region.stream_job),
    h("td", { class: "number" }, count(region.region)),
    h("td", {}, state(region)),
    h("td", {}, region.namespace),
    h("td", {}, region.trigger),
    h("td", { class: "number" }, count(region.last_completed_seq_id)),
    h("td", { class: "number" }, milliseconds(region.average_drain_ms)),
    h("td", { class: "number" }, milliseconds(region.average_reset_ms)),
    h("td", {}, `${count(region.reset_attempts)} of ${count(region.max_reset_attempts)}`),
    h("td", {}, time(region.last_consistent_at)),
    h("td", {}, time(region.last_reset_at)),
  ),
];

/** Show the regions of `cluster`. */
export async function refresh(cluster) {
  const found = await ask("v1/regions", { cluster, limit: MOST });
  if (!found) return;
  for (const id of ["regions", "to-regions"]) byId(id).hidden = !found.total;
  const shown = found.items.length;
  text(
    byId("regions-count"),
    shown < found.total
      ? `The first ${count(shown)} of ${count(found.total)} regions.`
      : `${count(found.total)} ${found.total === 1 ? "region" : "regions"}.`,
  );
  reconcile(byId("region-rows"), found.items, (one) => `${one.namespace}/${one.stream_job}/${one.region}`, row);
}

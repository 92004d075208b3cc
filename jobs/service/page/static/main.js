// The page: every part asks for its own data, again and again while the page is looked at.

import { token } from "./api.js";
import * as ask from "./ask.js";
import * as decisions from "./decisions.js";
import { byId, h, say, settled } from "./dom.js";
import * as evidence from "./evidence.js";
import { zone } from "./format.js";
import * as health from "./health.js";
import * as heatmap from "./heatmap.js";
import * as nodes from "./nodes.js";
import * as regions from "./regions.js";

const PERIOD = 15_000;
let busy = false;
let wanted = false;

const cluster = () => byId("cluster").value;

/** Show why something failed: ask for the token where it is needed, else a sentence. */
function failed(error) {
  if (error.signIn) {
    byId("main").hidden = true;
    if (byId("sign-in").hidden) {
      byId("sign-in").hidden = false;
      byId("token").focus();
    }
  } else if (!(error instanceof Error) || !error.message) {
    error = new Error("Something went wrong on this page.");
  }
  say(byId("problem"), error.message);
}

function choose(clusters) {
  const choice = byId("cluster");
  const known = [...choice.options].map((each) => each.value);
  if (JSON.stringify(known) !== JSON.stringify(clusters)) {
    const before = choice.value;
    choice.replaceChildren(...clusters.map((name) => h("option", { value: name }, name)));
    if (clusters.includes(before)) choice.value = before;
  }
  byId("cluster-choice").hidden = clusters.length < 2;
}

const explain = (victim, aggressor, cell) => evidence.show(cluster(), victim, aggressor, cell).catch(failed);

const PARTS = {
  nodes: () => nodes.refresh(cluster()),
  pairs: () => heatmap.refresh(cluster(), explain),
  decisions: () => decisions.refresh(cluster()),
  regions: () => regions.refresh(cluster()),
};

/** Ask for everything; what is wanted meanwhile is asked for once more behind it. */
async function refresh() {
  wanted = busy;
  if (busy) return;
  busy = true;
  try {
    choose(await health.refresh());
    byId("sign-in").hidden = true;
    byId("main").hidden = false;
    byId("forget").hidden = !token.get();
    const found = await Promise.allSettled(Object.values(PARTS).map((part) => part()));
    const refused = found.find((each) => each.status === "rejected");
    if (refused) throw refused.reason;
    say(byId("problem"), "");
  } catch (error) {
    failed(error);
  } finally {
    busy = false;
    if (wanted) refresh();
  }
}

/** Ask again for one part. */
const again = (part) => () => PARTS[part]().then(() => say(byId("problem"), ""), failed);

function listen() {
  byId("refresh").addEventListener("click", refresh);
  byId("cluster").addEventListener("change", () => {
    evidence.close();
    nodes.fewer();
    refresh();
  });
  byId("nodes-search").addEventListener("input", nodes.fewer);
  byId("nodes-search").addEventListener("input", settled(again("nodes")));
  byId("nodes-more").addEventListener("click", () => {
    nodes.more();
    again("nodes")();
  });
  byId("pairs-search").addEventListener("input", settled(again("pairs")));
  byId("pairs-size").addEventListener("change", again("pairs"));
  byId("decisions-search").addEventListener("input", settled(decisions.filter));
  byId("decisions-more").addEventListener("click", decisions.more);
  for (const id of ["decisions-mode", "decisions-outcome"]) byId(id).addEventListener("change", again("decisions"));
  byId("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(byId("token").value.trim());
    byId("token").value = "";
    refresh();
  });
  byId("forget").addEventListener("click", () => {
    token.forget();
    byId("forget").hidden = true;
    refresh();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && byId("repeat").checked) refresh();
  });
  setInterval(() => {
    if (!document.hidden && byId("repeat").checked && byId("sign-in").hidden) refresh();
  }, PERIOD);
}

byId("zone").textContent = zone();
evidence.start();
ask.start(cluster, () => heatmap.strongest, failed);
listen();
refresh();

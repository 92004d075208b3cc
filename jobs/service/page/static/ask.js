// A pod that is pasted, and what is recommended for it.

import { post } from "./api.js";
import { byId, h, say, table } from "./dom.js";
import { count, sentence } from "./format.js";

const MOST = 50;
let asking = 0;

const OUTCOMES = {
  patched: "its affinity would be set as below",
  unchanged: "nothing of it would be changed",
  left_alone: "it would be left alone",
};

function headline(told) {
  const can = told.satisfiable ? "This pod can be placed" : "No node satisfies what this pod needs";
  const best = told.satisfiable && told.nodes.length ? `; the best node is ${told.nodes[0].name}` : "";
  const how = told.mode === "observe" ? "nothing is changed in mode observe" : OUTCOMES[told.outcome] ?? told.outcome;
  return `${can}${best}. In mode ${told.mode}, ${how}.`;
}

// The first criterion alone, in the tenths that it counts with: what stands behind them is an order and no amount.
const score = (exact) => (Math.floor(exact * 10 + 1e-9) / 10).toFixed(1);

function nodes(found) {
  const rows = found
    .slice(0, MOST)
    .map((each, place) => [String(place + 1), each.name, score(each.score), each.reasons.join("; ")]);
  const caption = found.length > MOST ? `Nodes, the best ${MOST} of ${count(found.length)}` : "Nodes, best first";
  return rows.length ? table(caption, ["#Rank", "Node", "#Score", "Reasons"], rows) : null;
}

const code = (name, value) =>
  h("details", {}, h("summary", {}, name), h("pre", { tabindex: 0 }, JSON.stringify(value, null, 2)));

function answered(told) {
  const other = ["hpa", "hosts", "disks"].filter((part) => told[part]);
  return [
    h("h3", {}, told.satisfiable ? "Recommendation" : "Unsatisfiable"),
    h("p", { class: told.satisfiable ? "meaning" : "meaning bad" }, headline(told)),
    h("h4", {}, "Because"),
    h(
      "ul",
      { class: "reasons" },
      told.reasons.map((each) => h("li", {}, sentence(each.sentence), " ", h("code", { class: "quiet" }, each.rule))),
    ),
    told.left_out.length ? h("p", { class: "problem" }, `Left out: ${told.left_out.join(", ")}.`) : null,
    nodes(told.nodes),
    code("Affinity, as JSON (which is YAML too)", { affinity: told.affinity }),
    told.patch.length ? code("JSON Patch", told.patch) : null,
    ...other.map((part) => code(part.toUpperCase(), told[part])),
    h("p", { class: "quiet" }, "From snapshot ", h("code", {}, told.snapshot), "."),
  ].filter((each) => each !== null);
}

async function ask(cluster, failed) {
  const own = ++asking;
  const pod = byId("pod");
  const complain = (sentenceOf) => {
    say(byId("pod-problem"), sentenceOf);
    pod.setAttribute("aria-invalid", String(Boolean(sentenceOf)));
  };
  complain("");
  try {
    const told = await post("v1/recommendations", pod.value, { cluster, mode: byId("mode").value });
    if (own === asking) byId("answer").replaceChildren(...answered(told));
  } catch (error) {
    if (own !== asking) return;
    byId("answer").replaceChildren();
    if (error.message) complain(error.message);
    if (error.signIn || !error.message) failed(error);
  }
}

function example(name) {
  const [namespace, ...rest] = (name || "guest/hello").split("/");
  const written = (value) => JSON.stringify(value);
  return `apiVersion: v1
kind: Pod
metadata:
  name: example
  namespace: openwhisk
  labels:
    openwhisk/namespace: ${written(namespace)}
    openwhisk/action: ${written(rest.at(-1) ?? namespace)}
spec:
  containers:
  - name: user-action
    image: example
    resources:
      requests: {cpu: 100m, memory: 256Mi}
`;
}

/** Answer the form; `cluster` and `strongest` tell which cluster is looked at, and a function for the example. */
export function start(cluster, strongest, failed) {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    ask(cluster(), failed);
  });
  byId("pod").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("ask").requestSubmit();
  });
  byId("example").addEventListener("click", () => {
    byId("pod").value = example(strongest());
    byId("pod").focus();
  });
}

// Who slows whom down: a grid with one tab stop, moved through by the arrow keys.

import { get } from "./api.js";
import { byId, h, newest, text } from "./dom.js";
import { count, interval, percent } from "./format.js";

const STEPS = [0.05, 0.2, 0.5, 1];
const ask = newest(get);
let drawn = "";
let buttons = [];
let names = [[], []];
let current = [0, 0];

const known = (cell) => cell && cell.status !== "unknown" && cell.slowdown !== null;

function shade(cell) {
  return known(cell) ? `b${STEPS.filter((step) => cell.slowdown >= step).length}` : "none";
}

/** A tenth of a percent tells little of a large slowdown, and much of a small one. */
function figure(percents) {
  return percents < 10 ? percents.toFixed(1).replace(/\.0$/, "") : String(Math.round(percents));
}

function shown(cell) {
  if (!cell) return "";
  if (!known(cell)) return "?";
  const number = figure(100 * cell.slowdown);
  if (cell.status === "predicted") return `(${number})`;
  return cell.status === "shared_cause" ? `~${number}` : number;
}

function told(victim, aggressor, cell) {
  const pair = `${victim} beside ${aggressor}`;
  if (!cell) return `${pair}: nothing known`;
  if (!known(cell)) return `${pair}: unknown, ${count(cell.effective_overlaps)} effective overlaps`;
  const status = cell.status.replace("_", " ");
  const range = interval(cell.low, cell.high);
  const sure = `probability ${(cell.probability ?? 0).toFixed(2)}`;
  return `${pair}: ${percent(cell.slowdown)} longer, 90% interval ${range}, ${status}, ${sure}`;
}

function focus(row, column) {
  const [before, there] = [buttons[current[0]]?.[current[1]], buttons[row]?.[column]];
  if (!there) return;
  if (before) before.tabIndex = -1;
  there.tabIndex = 0;
  current = [row, column];
  there.focus();
}

function moved(event) {
  const place = event.target.dataset?.place?.split(",").map(Number);
  if (!place) return;
  const [row, column] = place;
  const [last, end] = [buttons.length - 1, buttons[0].length - 1];
  const whole = event.ctrlKey || event.metaKey;
  const to = {
    ArrowUp: [Math.max(0, row - 1), column],
    ArrowDown: [Math.min(last, row + 1), column],
    ArrowLeft: [row, Math.max(0, column - 1)],
    ArrowRight: [row, Math.min(end, column + 1)],
    PageUp: [Math.max(0, row - 5), column],
    PageDown: [Math.min(last, row + 5), column],
    Home: [whole ? 0 : row, 0],
    End: [whole ? last : row, end],
  }[event.key];
  if (!to) return;
  event.preventDefault();
  focus(...to);
}

function grid(map, choose) {
  const cells = new Map(map.cells.map((cell) => [`${cell.victim}\n${cell.aggressor}`, cell]));
  buttons = map.victims.map((victim, row) =>
    map.aggressors.map((aggressor, column) => {
      const cell = cells.get(`${victim}\n${aggressor}`);
      return h(
        "button",
        {
          type: "button",
          class: `cell ${shade(cell)}`,
          tabindex: -1,
          "aria-label": told(victim, aggressor, cell),
          title: told(victim, aggressor, cell),
          "data-place": `${row},${column}`,
          on: {
            click: (event) => {
              focus(row, column);
              choose(victim, aggressor, event.currentTarget);
            },
          },
        },
        shown(cell),
      );
    }),
  );
  const head = h(
    "tr",
    {},
    h("td", { class: "corner" }, h("span", {}, "victim"), h("span", {}, "aggressor")),
    map.aggressors.map((name) => h("th", { scope: "col", title: name }, h("span", {}, name))),
  );
  const rows = map.victims.map((name, row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", title: name }, h("span", {}, name)),
      buttons[row].map((button) => h("td", { role: "gridcell" }, button)),
    ),
  );
  return h(
    "table",
    {
      role: "grid",
      class: "heat",
      "aria-labelledby": "interference-head",
      "aria-describedby": "map-help",
      on: { keydown: moved },
    },
    h("thead", {}, head),
    h("tbody", {}, rows),
  );
}

function summary(map, search) {
  if (!map.victims.length) {
    return search ? `No pair has a function that matches “${search}”.` : "Nothing has been learned of any pair yet.";
  }
  const part = (names, total, role) =>
    names.length < total
      ? `the ${count(names.length)} strongest of ${count(total)} ${role}s`
      : `${count(total)} ${role}${total === 1 ? "" : "s"}`;
  const matching = search ? `, of pairs that match “${search}”` : "";
  const victims = part(map.victims, map.victims_total, "victim");
  return `Rows: ${victims}. Columns: ${part(map.aggressors, map.aggressors_total, "aggressor")}${matching}.`;
}

/** The name of the strongest victim that is shown. */
export let strongest = "";

/** Draw the map of `cluster`; `choose` is called with the pair that is chosen, and its cell. */
export async function refresh(cluster, choose) {
  const search = byId("pairs-search").value.trim();
  const map = await ask("v1/heat-map", { cluster, search, size: byId("pairs-size").value });
  if (!map) return;
  text(byId("pairs-count"), summary(map, search));
  strongest = search ? strongest : (map.victims[0] ?? "");
  const written = JSON.stringify([map.victims, map.aggressors, map.cells]);
  if (written === drawn) return;
  const holder = byId("map");
  const held = holder.contains(document.activeElement);
  const pair = [names[0][current[0]], names[1][current[1]]];
  drawn = written;
  names = [map.victims, map.aggressors];
  current = names.map((each, axis) => Math.max(0, each.indexOf(pair[axis])));
  if (!map.victims.length) {
    buttons = [];
    holder.replaceChildren();
    return;
  }
  holder.replaceChildren(grid(map, choose));
  if (held) focus(...current);
  else buttons[current[0]][current[1]].tabIndex = 0;
}

// Elements are made of text nodes and attributes alone: no name that is shown can ever be markup.

/** Make an element; `on` holds listeners, `class` and the rest are attributes, and null children are left out. */
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    } else {
      made.setAttribute(name, value === true ? "" : String(value));
    }
  }
  made.append(...children.flat().filter((each) => each !== null && each !== undefined));
  return made;
}

export const byId = (id) => document.getElementById(id);

/** Show a sentence in an element that is hidden while there is none; the same one is not announced twice. */
export function say(element, sentence) {
  if (element.textContent !== sentence) element.textContent = sentence;
  element.hidden = !sentence;
}

/** Set the text of an element that assistive technology may read aloud, only where it differs. */
export function text(element, sentence) {
  if (element.textContent !== sentence) element.textContent = sentence;
}

/**
 * Bring the children of `parent` in line with `rows`: an element whose row is as it was stays as it is, with its focus
 * and what is open in it. `make` returns the elements of one row; focus is found again by `data-focus`.
 */
export function reconcile(parent, rows, keyOf, make) {
  const held = parent.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  const before = parent.rowsByKey ?? new Map();
  const after = new Map();
  for (const row of rows) {
    const key = keyOf(row);
    const written = JSON.stringify(row);
    const known = before.get(key);
    after.set(key, known?.written === written ? known : { written, elements: make(row) });
  }
  const wanted = [...after.values()].flatMap((each) => each.elements);
  wanted.forEach((element, place) => {
    if (parent.children[place] !== element) parent.insertBefore(element, parent.children[place] ?? null);
  });
  while (parent.children.length > wanted.length) parent.lastElementChild.remove();
  parent.rowsByKey = after;
  if (held !== undefined && !parent.contains(document.activeElement)) {
    [...parent.querySelectorAll("[data-focus]")].find((each) => each.dataset.focus === held)?.focus();
  }
}

/** Hand on what is asked for, or null where something newer was asked for before it came. */
export function newest(ask) {
  let number = 0;
  return async (...given) => {
    const own = ++number;
    const found = await ask(...given);
    return own === number ? found : null;
  };
}

/** Call `work` once nothing has happened for a moment. */
export function settled(work, milliseconds = 250) {
  let waiting;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(work, milliseconds);
  };
}

/** A table out of heads and rows of cells; a head that begins with "#" is of numbers. */
export function table(caption, heads, rows) {
  const numbers = heads.map((head) => head.startsWith("#"));
  const number = (place) => (numbers[place] ? "number" : null);
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": caption, tabindex: 0 },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h(
        "thead",
        {},
        h("tr", {}, heads.map((head, place) => h("th", { scope: "col", class: number(place) }, head.replace("#", "")))),
      ),
      h(
        "tbody",
        {},
        rows.map((row) => h("tr", {}, row.map((cell, place) => h("td", { class: number(place) }, cell)))),
      ),
    ),
  );
}

// Numbers with their units, and moments in the local zone.

import { h } from "./dom.js";

export const NONE = "–";
const SPACE = "\u00a0";

const absent = (value) => value === null || value === undefined || !Number.isFinite(value);

export function count(value) {
  return absent(value) ? NONE : value.toLocaleString("en", { maximumFractionDigits: 1 });
}

/** A share as a percentage: .25 is 25 %. */
export function percent(share, sign = false) {
  if (absent(share)) return NONE;
  const whole = Math.round(100 * share);
  return `${sign && whole > 0 ? "+" : ""}${whole.toLocaleString("en")}%`;
}

export function interval(low, high) {
  return absent(low) || absent(high) ? NONE : `${percent(low)} to ${percent(high)}`;
}

export function cores(value) {
  return absent(value) ? NONE : value.toLocaleString("en", { maximumFractionDigits: 2 });
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(value) {
  if (absent(value)) return NONE;
  let power = 0;
  while (Math.abs(value) >= 1024 && power < SIZES.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${value.toLocaleString("en", { maximumFractionDigits: 1 })}${SPACE}${SIZES[power]}`;
}

export function milliseconds(value) {
  if (absent(value)) return NONE;
  if (value >= 10_000) return `${(value / 1000).toLocaleString("en", { maximumFractionDigits: 1 })}${SPACE}s`;
  return `${value.toLocaleString("en", { maximumSignificantDigits: 3, useGrouping: false })}${SPACE}ms`;
}

/** A span of seconds in its two largest units. */
export function span(seconds) {
  if (absent(seconds)) return NONE;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole}${SPACE}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 120) return `${minutes}${SPACE}min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}${SPACE}h ${minutes % 60}${SPACE}min`;
  return `${Math.floor(hours / 24)}${SPACE}d`;
}

const two = (value) => String(value).padStart(2, "0");

/** A moment in the local zone, in UTC on hover; the element holds it exactly. */
export function time(iso) {
  if (!iso) return NONE;
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const utc = at.toISOString();
  return h("time", { datetime: iso, title: `${utc.slice(0, 10)} ${utc.slice(11, 19)} UTC` }, `${date} ${clock}`);
}

/** Which zone times are told in. */
export function zone() {
  const minutes = -new Date().getTimezoneOffset();
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const offset = `${minutes < 0 ? "−" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
  return `Times are those of ${name} (UTC${offset}); each shows UTC when it is pointed at.`;
}

/** What is said, with a full stop; it may begin with a name, which stays as it is. */
export const sentence = (said) => (/[.!?]$/.test(said) ? said : `${said}.`);

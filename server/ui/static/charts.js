// Timelines and plans: links that update a page without leaving it, tooltips for the
// bars under the pointer or focus, and zooming with the wheel or by dragging. The URL
// records the current view, so it can be shared, and Back works.

import { refresh } from "./app.js";

const $ = (selector, from = document) => from.querySelector(selector);
const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];

const LIVE_EVERY = 5000; // how often bars of active spans are extended
const NEAR = 5; // distance from a bar, in pixels, that still counts as on it
const DRAG_FROM = 6; // pixels; a shorter movement is a click
const ZOOM_STEP = 1.25;
const SHORTEST = 20; // shortest time span to zoom into, in milliseconds

// ── Soft links ─────────────────────────────────────────────────────────────

function go(href, push = true) {
  history[push ? "pushState" : "replaceState"](null, "", href);
  return refresh();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-soft]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const before = new URLSearchParams(location.search);
  go(link.getAttribute("href")).then(() => {
    const side = $(".side");
    const after = new URLSearchParams(location.search);
    const chosen = ["span", "step"].some((name) => after.get(name) && after.get(name) !== before.get(name));
    if (side && chosen && getComputedStyle(side).position !== "sticky") side.scrollIntoView({ block: "start" });
  });
});
addEventListener("popstate", () => refresh());

// ── Tooltips of bars ───────────────────────────────────────────────────────

const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("role", "tooltip");
document.body.append(tip);
let hit = null;

function tell(bar, x, y) {
  if (hit !== bar) {
    hit?.classList.remove("hit");
    hit = bar;
    hit?.classList.add("hit");
  }
  tip.hidden = !bar;
  if (!bar) return;
  const [name, ...rest] = bar.getAttribute("aria-label").split(" · ");
  const head = document.createElement("strong");
  head.textContent = name;
  tip.replaceChildren(head, rest.join(" · "));
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
}

// near returns the bar at a point, or the nearest one within NEAR pixels to its left or right.
function near(x, y) {
  for (let d = 0; d <= NEAR; d++) {
    for (const at of d ? [x - d, x + d] : [x]) {
      const bar = document.elementFromPoint(at, y)?.closest?.(".bar");
      if (bar) return bar;
    }
  }
  return null;
}

document.addEventListener("pointermove", (event) => {
  if (drag) return;
  const lane = event.target.closest?.(".tl .lane > svg");
  if (lane) tell(near(event.clientX, event.clientY), event.clientX, event.clientY);
  else if (hit) tell(null);
});
document.addEventListener("focusin", (event) => {
  const bar = event.target.closest?.(".bar");
  if (!bar) {
    tell(null);
    return;
  }
  for (const other of $$('.bar[tabindex="0"]')) other.setAttribute("tabindex", "-1");
  bar.setAttribute("tabindex", "0");
  const box = bar.getBoundingClientRect();
  if (bar.matches(":focus-visible")) tell(bar, box.left, box.bottom);
});

// Tab moves to one bar; the arrow keys move to the others.
function roving() {
  const bars = $$(".tl .bar");
  if (!bars.length || bars.includes(document.activeElement)) return;
  const first = bars.find((bar) => bar.classList.contains("on")) ?? bars[0];
  for (const bar of bars) bar.setAttribute("tabindex", bar === first ? "0" : "-1");
}

const left = (bar) => bar.getBoundingClientRect().left;

document.addEventListener("keydown", (event) => {
  const bar = event.target.closest?.(".bar");
  if (!bar || event.ctrlKey || event.metaKey || event.altKey) return;
  const lanes = $$(".tl .lane").filter((lane) => $(".bar", lane));
  const lane = bar.closest(".lane");
  const own = $$(".bar", lane).sort((a, b) => left(a) - left(b));
  let next = null;
  switch (event.key) {
    case "ArrowRight": next = own[own.indexOf(bar) + 1]; break;
    case "ArrowLeft": next = own[own.indexOf(bar) - 1]; break;
    case "Home": next = own[0]; break;
    case "End": next = own.at(-1); break;
    case "ArrowUp":
    case "ArrowDown": {
      const to = lanes[lanes.indexOf(lane) + (event.key === "ArrowDown" ? 1 : -1)];
      if (to) next = $$(".bar", to).reduce((a, b) => (Math.abs(left(b) - left(bar)) < Math.abs(left(a) - left(bar)) ? b : a));
      break;
    }
    default: return;
  }
  event.preventDefault();
  next?.focus();
});

// ── Zoom ───────────────────────────────────────────────────────────────────

const track = () => $(".tl .axis > svg")?.getBoundingClientRect();
const scale = () => JSON.parse($(".tl").dataset.scale);

// moment returns the time at a position from 0 to 1, in milliseconds since the run began.
function moment(parts, x) {
  for (const [from, to, x0, x1] of parts) if (x <= x1 && x1 > x0) return from + ((to - from) * Math.max(0, x - x0)) / (x1 - x0);
  return parts.at(-1)[1];
}

function show(from, to, push) {
  if (to - from < SHORTEST) return;
  const url = new URL(location);
  url.searchParams.set("from", Math.max(0, Math.floor(from)));
  url.searchParams.set("to", Math.max(0, Math.ceil(to)));
  go(url, push);
}

let wheeled = null;
document.addEventListener("wheel", (event) => {
  const chart = event.target.closest?.(".tl");
  if (!chart || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  const box = track();
  const at = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  wheeled ??= { at, by: 1 };
  wheeled.by *= event.deltaY < 0 ? 1 / ZOOM_STEP : ZOOM_STEP;
  clearTimeout(wheeled.timer);
  wheeled.timer = setTimeout(() => {
    const parts = scale();
    const { at: place, by } = wheeled;
    wheeled = null;
    const [from, to] = [parts[0][0], parts.at(-1)[1]];
    if (by < 1) show(moment(parts, place * (1 - by)), moment(parts, place * (1 - by) + by), false);
    else show(from - place * (by - 1) * (to - from), to + (1 - place) * (by - 1) * (to - from), false);
  }, 120);
}, { passive: false });

let drag = null;
document.addEventListener("pointerdown", (event) => {
  const lane = event.target.closest?.(".tl .lane > svg");
  if (lane && event.button === 0 && event.pointerType === "mouse") drag = { from: event.clientX, mark: null };
});
document.addEventListener("pointermove", (event) => {
  if (!drag) return;
  const box = track();
  if (!box || (!drag.mark && Math.abs(event.clientX - drag.from) < DRAG_FROM)) return;
  if (!drag.mark) {
    tell(null);
    drag.mark = document.createElement("div");
    drag.mark.className = "picked";
    $(".tl").append(drag.mark);
  }
  const clamp = (x) => Math.min(box.right, Math.max(box.left, x));
  const [a, b] = [clamp(drag.from), clamp(event.clientX)].sort((p, q) => p - q);
  const ground = $(".tl").getBoundingClientRect();
  drag.span = [(a - box.left) / box.width, (b - box.left) / box.width];
  drag.mark.style.left = `${a - ground.left}px`;
  drag.mark.style.width = `${b - a}px`;
  event.preventDefault();
});
document.addEventListener("pointerup", () => {
  const { mark, span } = drag ?? {};
  drag = null;
  mark?.remove();
  if (mark && span) {
    const parts = scale();
    show(moment(parts, span[0]), moment(parts, span[1]), true);
    addEventListener("click", (event) => { event.preventDefault(); event.stopPropagation(); }, { capture: true, once: true });
    setTimeout(() => dispatchEvent(new Event("click")), 0); // in case the browser does not send a click
  } 
});
document.addEventListener("dragstart", (event) => { if (event.target.closest?.(".tl")) event.preventDefault(); });
// A click near a bar that is too thin to hit counts as a click on it.
document.addEventListener("click", (event) => {
  if (event.target.closest?.(".tl .lane > svg") && !event.target.closest(".bar")) near(event.clientX, event.clientY)?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
});

document.addEventListener("rgpt:refreshed", () => { tell(null); roving(); });
roving();
setInterval(() => { if ($("[data-live-chart]") && !document.hidden && !drag) refresh(); }, LIVE_EVERY);

// The pages' behavior: live updates, commands and keyboard shortcuts. The server
// renders the pages, so they can be read without this script.

const $ = (selector, from = document) => from.querySelector(selector);
const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
const page = () => $("#page");

// Delays and intervals, in milliseconds.
const REST_LEAST = 50; // shortest pause between refreshes
const REST_MOST = 1000;
const REST_TIMES = 1; // pause relative to the duration of the refresh, to spare a busy server
const AGAIN_AFTER = 5000; // until a failed refresh is retried
const PLACE_AFTER = 400; // from the end of scrolling until the URL records the position
const TICK_EVERY = 1000; // relative times are updated
const TOAST_FOR = 8000;
const TEXT_FOR = 15000; // a model's text is dropped if it is not renewed

// ── Live ───────────────────────────────────────────────────────────────────
// The stream reports that something happened. The page is then fetched again, as
// rendered by the server, and updated in place. A hidden page has no connection,
// because browsers allow only a few per host.

let stream = null;
let refreshing = null;
let again = false;
let retry = 0;
let restUntil = 0;
let lastEvent = null;
let cut = false; // the stream was disconnected after the page was rendered

function liveIs(state) {
  for (const dot of $$("[data-live]")) {
    dot.dataset.live = state;
    const word = $(".word", dot);
    if (word) word.textContent = { on: "live", reconnecting: "reconnecting", off: "not live" }[state];
  }
}

function connect() {
  const address = page()?.dataset.stream;
  if (!address || stream || document.hidden) return;
  const url = new URL(address, location);
  url.searchParams.set("as", "message");
  if (lastEvent?.path === url.pathname) url.searchParams.set("after", lastEvent.id);
  if ($("[data-writing]")) url.searchParams.set("text", "true");
  stream = new EventSource(url);
  stream.addEventListener("text", (event) => showText(JSON.parse(event.data)));
  stream.addEventListener("open", () => {
    liveIs("on");
    // A stream without a last id begins with the current events. Events that happened
    // while disconnected are only in a newly rendered page.
    if (cut) refresh();
    cut = false;
  });
  stream.addEventListener("error", () => {
    cut = true;
    forgetTexts();
    liveIs("reconnecting");
    if (stream?.readyState === EventSource.CLOSED) {
      disconnect();
      setTimeout(connect, 2000);
    }
  });
  stream.addEventListener("message", (event) => {
    lastEvent = { path: url.pathname, id: event.lastEventId };
    const data = JSON.parse(event.data);
    document.dispatchEvent(new CustomEvent("rgpt:event", { detail: data }));
    refresh();
  });
}

function disconnect() {
  stream?.close();
  stream = null;
  forgetTexts();
}

// ── Texts ──────────────────────────────────────────────────────────────────
// What models write while they write it. Each message contains the end of the text of
// a call. A call that has ended has a response, which is part of the page's content.

const texts = new Map(); // by call

function showText(text) {
  const box = $("[data-writing]");
  const key = `${text.execution_id}/${text.turn}`;
  const known = texts.get(key);
  if (!box || known?.try > text.try) return;
  if (text.over) {
    known?.remove();
    refresh();
    return;
  }
  const shown = known ?? newText(key);
  shown.try = text.try;
  shown.at = performance.now();
  shown.fill(text);
  if (!shown.element.isConnected) box.append(shown.element);
  box.hidden = false;
}

// newText creates the element of a call. All of it is set as text, never as HTML.
function newText(key) {
  const element = document.createElement("article");
  const head = document.createElement("header");
  const who = document.createElement("strong");
  const doing = document.createElement("span");
  const said = document.createElement("pre");
  element.className = "box writing";
  doing.className = "dim";
  said.dir = "auto";
  head.append(who, doing);
  element.append(head, said);
  const shown = {
    element,
    fill: (t) => {
      who.textContent = [t.agent, t.step].filter(Boolean).join(" ");
      doing.textContent = doingOf(t);
      said.textContent = t.text ?? "";
      said.hidden = !t.text;
      said.scrollTop = said.scrollHeight;
    },
    remove: () => {
      element.remove();
      texts.delete(key);
      const box = $("[data-writing]");
      if (box) box.hidden = texts.size === 0;
    },
  };
  texts.set(key, shown);
  return shown;
}

function doingOf(t) {
  if (t.thinking) return "thinking…";
  if (t.tool) return `writing ${[t.tool, t.path].filter(Boolean).join(" ")} (${t.characters ?? 0} characters)…`;
  return "writing…";
}

function forgetTexts(before = Infinity) {
  for (const shown of [...texts.values()]) if (shown.at < before) shown.remove();
}

// Texts are shown again every few seconds; without that, their worker died.
setInterval(() => forgetTexts(performance.now() - TEXT_FOR), TICK_EVERY);

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    disconnect();
    liveIs("off");
  } else {
    connect();
    refresh();
  }
});

// refresh fetches the page again, immediately if there are few events.
export function refresh() {
  if (refreshing) {
    again = true;
    return refreshing;
  }
  let began;
  const wait = Math.max(0, restUntil - performance.now());
  refreshing = new Promise((done) => setTimeout(done, wait))
    .then(() => {
      began = performance.now();
      again = false; // the new page includes all events up to now
      return load();
    })
    .catch(() => {
      liveIs("reconnecting");
      // Perhaps no later event triggers a refresh, so retry.
      clearTimeout(retry);
      retry = setTimeout(() => document.hidden || refresh(), AGAIN_AFTER);
    })
    .finally(() => {
      refreshing = null;
      const now = performance.now();
      restUntil = now + Math.min(REST_MOST, Math.max(REST_LEAST, REST_TIMES * (now - began)));
      if (again) {
        again = false;
        refresh();
      }
    });
  return refreshing;
}

async function load() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(answer.statusText);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const now = page();
  const next = $("#page", fresh);
  if (!now || !next) return;
  document.title = fresh.title;
  morph(now, next);
  const rail = $("#rail");
  if (rail && $("#rail", fresh)) morph(rail, $("#rail", fresh));
  liveIs(!stream ? "off" : stream.readyState === EventSource.OPEN ? "on" : "reconnecting");
  document.dispatchEvent(new CustomEvent("rgpt:refreshed"));
}

// morph changes one tree of the page into another, in place. It preserves opened
// elements, input and scroll positions, and does not move rows under the pointer.
function morph(from, to) {
  for (const table of $$("[data-hold]:hover", from)) {
    hold(table, to);
  }
  lengthen(from, to);
  window.Idiomorph.morph(from, to, {
    morphStyle: "outerHTML",
    // Otherwise, a focused element that is not a field, such as the page itself after
    // a click on its background, would be skipped with all its content.
    ignoreActiveValue: Boolean(document.activeElement?.matches("input,textarea,select")),
    callbacks: {
      beforeNodeMorphed: (a, b) => {
        if (a.nodeType !== 1) return true;
        if (a.hasAttribute("data-keep") && a.getAttribute("data-keep") === b.getAttribute?.("data-keep")) return false;
        if (a.tagName === "DETAILS" && a.open) b.setAttribute("open", "");
        if (a.tagName === "DETAILS" && !a.open && a.hasAttribute("data-closed")) {
          b.removeAttribute("open");
          b.setAttribute("data-closed", ""); // so that it also survives the next refresh
        }
        if (a.dataset?.dirty && "value" in a) return false;
        // The button next to an edited field must refer to the state that the user saw.
        if (a.dataset?.command && $("[data-dirty]", a.form ?? a) && !refused.has(a.form)) return false;
        return true;
      },
      beforeNodeRemoved: (a) => !(a.nodeType === 1 && a.hasAttribute("data-stay")),
    },
  });
}

const caughtUp = () => refresh();

// hold updates the rows of a table under the pointer without moving them; rows are
// added when the pointer leaves the table.
function hold(table, to) {
  const next = table.id ? $("#" + CSS.escape(table.id), to) : $$("[data-hold]", to)[$$("[data-hold]").indexOf(table)];
  if (!next) return;
  const body = $("tbody", next);
  const rows = new Map([...body.children].map((row) => [row.id, row]));
  const kept = [...$("tbody", table).children].map((row) => rows.get(row.id) ?? row.cloneNode(true));
  if (rows.size !== kept.length || kept.some((row) => !rows.has(row.id))) {
    table.addEventListener("pointerleave", caughtUp, { once: true }); // the same function each time, so it is added only once
  }
  body.replaceChildren(...kept);
}

// lengthen keeps the parts of a long list that were loaded by scrolling: the page
// from the server contains only the beginning and a link to the next part.
function lengthen(from, to) {
  const list = $("[data-chunk]:not([data-keep])", from);
  const next = $("[data-chunk]:not([data-keep])", to);
  const link = $("a[data-more][rel=next]", from);
  const first = $("a[data-more][rel=next]", to);
  if (!list || !next || !link || !first) return;
  const fresh = new Set([...next.children].map((row) => row.id));
  const rows = [...list.children];
  const tail = rows.slice(rows.findLastIndex((row) => fresh.has(row.id)) + 1);
  if (!tail.length || tail.length === rows.length) return;
  next.append(...tail.map((row) => row.cloneNode(true)));
  first.setAttribute("href", link.getAttribute("href"));
  first.hidden = link.hidden;
}

document.addEventListener("toggle", (event) => {
  const d = event.target;
  if (d.tagName === "DETAILS") d.toggleAttribute("data-closed", !d.open);
}, true);

// Changes without an event, such as heartbeats, are polled.
let looked = performance.now();
setInterval(() => {
  const every = Number(page()?.dataset.every) * 1000;
  if (!every || document.hidden || performance.now() - looked < every) return;
  looked = performance.now();
  refresh();
}, TICK_EVERY);

// ── Times ──────────────────────────────────────────────────────────────────

const MINUTE = 60, HOUR = 3600, DAY = 86400;

function age(s) {
  s = Math.max(0, Math.floor(s));
  if (s < MINUTE) return `${s}s`;
  if (s < HOUR) return `${Math.floor(s / MINUTE)}m`;
  if (s < 2 * DAY) return `${Math.floor(s / HOUR)}h`;
  return `${Math.floor(s / DAY)}d`;
}

function lasted(s) {
  s = Math.max(0, s);
  const two = (big, bigName, small, smallName) => {
    const rest = Math.floor((s % big) / small);
    return `${Math.floor(s / big)}${bigName}` + (rest ? ` ${rest}${smallName}` : "");
  };
  if (s < 10) return `${s.toFixed(1)}s`;
  if (s < MINUTE) return `${Math.floor(s)}s`;
  if (s < HOUR) return two(MINUTE, "m", 1, "s");
  if (s < DAY) return two(HOUR, "h", MINUTE, "m");
  return two(DAY, "d", HOUR, "h");
}

function tick() {
  const now = Date.now();
  for (const t of $$("time[data-ago],time[data-left],time[data-since]")) {
    const seconds = (now - Date.parse(t.dateTime)) / 1000;
    const text = "ago" in t.dataset ? age(seconds) : "left" in t.dataset ? (seconds < 0 ? age(-seconds) + " left" : "overdue") : lasted(seconds);
    if (t.textContent !== text) t.textContent = text;
  }
}
setInterval(tick, TICK_EVERY);

// ── Toasts ─────────────────────────────────────────────────────────────────

export function toast(state, text) {
  const box = document.createElement("div");
  box.className = `toast s-${state}`;
  const words = document.createElement("div");
  words.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "button quiet small close";
  close.textContent = "Close";
  close.addEventListener("click", () => box.remove());
  box.append(words, close);
  $("#toasts").append(box);
  if (state !== "failed") setTimeout(() => box.remove(), TOAST_FOR);
}

// ── Commands ───────────────────────────────────────────────────────────────

// confirmed asks for confirmation. It returns null for no; otherwise the reason and name entered.
function confirmed(button) {
  const { ask } = button.dataset;
  if (!ask) return Promise.resolve({});
  const dialog = $("#confirm");
  $("#confirm-title").textContent = button.textContent.trim();
  $("#confirm-text").textContent = ask;
  const reason = $("#confirm-reason");
  reason.hidden = !("reason" in button.dataset);
  const text = $("textarea", reason);
  text.value = "";
  const person = $("#confirm-person");
  person.hidden = !("person" in button.dataset);
  const name = $("input", person);
  name.disabled = person.hidden;
  const yes = $("[data-confirm]", dialog);
  yes.textContent = button.textContent.trim();
  yes.classList.toggle("danger", button.classList.contains("danger"));
  dialog.returnValue = "";
  dialog.showModal();
  name.onkeydown = (event) => { // the form's first button is Cancel
    if (event.key !== "Enter") return;
    event.preventDefault();
    yes.click();
  };
  (person.hidden ? (reason.hidden ? yes : text) : name).focus();
  const given = () => ({ ...(text.value.trim() && { reason: text.value.trim() }), ...(!name.disabled && { by: name.value.trim() }) });
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" ? given() : null), { once: true }));
}

// fields returns the values of a form as an object: empty fields are omitted, names
// with a dot are not nested, and numbers are converted.
function fields(form, names) {
  const out = {};
  const wanted = names ? names.split(" ") : null;
  for (const field of form.elements) {
    if (wanted && !wanted.includes(field.name)) continue;
    if (!field.name || field.disabled || ((field.type === "radio" || field.type === "checkbox") && !field.checked)) continue;
    if (field.value === "") continue;
    if (field.dataset.type === "json") out[field.name] = JSON.parse(field.value);
    else if (field.type === "number") out[field.name] = Number(field.value);
    else if (field.type === "checkbox") out[field.name] = true;
    else out[field.name] = field.value;
  }
  return out;
}

const sending = new WeakSet(); // buttons; a refresh during the request resets their aria-busy
const refused = new WeakSet(); // forms whose command was rejected because its target had changed

export async function send(button) {
  if (sending.has(button)) return;
  const form = button.closest("form");
  if (form && !form.reportValidity()) return;
  let body;
  try {
    body = { by: "dashboard", ...(form ? fields(form, button.dataset.fields) : {}), ...JSON.parse(button.dataset.body || "{}") };
  } catch (error) {
    toast("failed", `Invalid JSON: ${error.message}`);
    return;
  }
  const given = await confirmed(button);
  if (given === null) return;
  Object.assign(body, given);
  if (button.dataset.plain !== undefined) delete body.by;
  if (sending.has(button)) return;
  sending.add(button);
  button.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(button.dataset.href, {
      method: button.dataset.method || "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json", "Idempotency-Key": crypto.randomUUID?.() ?? String(Math.random()) },
      body: JSON.stringify(body),
    });
    const told = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      if (form && answer.status === 409) refused.add(form);
      const more = (told.errors ?? []).map((e) => `${e.at}: ${e.message}`).join("; ");
      toast("failed", [told.title ?? answer.statusText, told.detail, more].filter(Boolean).join(". "));
      return;
    }
    toast("done", told.message || told.answer?.message || `${button.textContent.trim()}: ${answer.status === 202 ? "started" : "done"}`);
    for (const menu of $$("details.menu[open]")) menu.open = false;
    if (form) for (const field of form.elements) delete field.dataset.dirty;
    document.dispatchEvent(new CustomEvent("rgpt:sent", { detail: { name: button.dataset.command, answer: told } }));
    if (button.dataset.then) location.href = button.dataset.then.replace("{runId}", told.runId ?? "");
    else await refresh();
  } catch {
    toast("failed", "The server did not respond. The action may still have been carried out: check before you try again.");
  } finally {
    sending.delete(button);
    button.removeAttribute("aria-busy");
  }
}

document.addEventListener("click", (event) => {
  const at = (selector) => event.target.closest?.(selector);
  const command = at("[data-command]");
  if (command) {
    event.preventDefault();
    send(command);
    return;
  }
  const copy = at("[data-copy]");
  if (copy) {
    event.preventDefault();
    navigator.clipboard?.writeText(copy.dataset.copy).then(() => toast("done", "Copied"), () => toast("failed", "The browser does not allow copying from this page."));
    return;
  }
  const source = at("[data-copy-from]");
  if (source) {
    fetch(source.dataset.copyFrom).then((answer) => (answer.ok ? answer.text() : Promise.reject(answer))).then((text) => navigator.clipboard.writeText(text))
      .then(() => toast("done", "Copied"), () => toast("failed", "Copying failed. Download the file instead."));
    return;
  }
  if (at("[data-close]")) at("dialog")?.close();
  if (at("[data-keys]")) $("#keys").showModal();
  if (at("[data-theme-switch]")) {
    const next = { "": "dark", dark: "light", light: "" }[document.documentElement.dataset.theme ?? ""];
    keep("theme", next);
    document.documentElement.dataset.theme = next;
    refresh();
  }
  if (at("[data-rail-switch]")) {
    const next = document.documentElement.dataset.rail === "narrow" ? "wide" : "narrow";
    keep("rail", next);
    document.documentElement.dataset.rail = next;
  }
  for (const menu of $$("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  const row = at("[data-rows] tbody tr");
  if (row && !at("a,button,summary,input,select,label") && !String(getSelection())) open(row);
});

// A model that accepts no temperature, or no effort, disables these fields.
function offer(form) {
  const typed = $("input[list][name=model]", form).value.trim();
  const model = typed ? [...$("#models").options].find((option) => option.value === typed) : $("input[type=hidden][name=model]", form);
  const data = model?.dataset ?? {}; // an unknown model may accept both
  $("[name=temperature]", form).disabled = "fixedTemperature" in data;
  $("[name=effort]", form).disabled = "noEffort" in data;
}
document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form[data-choose]");
  if (form) offer(form);
});
document.addEventListener("rgpt:refreshed", () => $$("form[data-choose]").forEach(offer));

document.addEventListener("submit", (event) => {
  const button = $("[data-command]", event.target);
  if (button && event.target.method !== "dialog") {
    event.preventDefault();
    send(button);
  }
});

function keep(name, value) {
  document.cookie = `${name}=${value}; path=/; max-age=31536000; samesite=strict`;
}

document.addEventListener("input", (event) => {
  if (event.target.name) event.target.dataset.dirty = "1";
  refused.delete(event.target.form);
});
document.addEventListener("change", (event) => {
  const form = event.target.closest?.("form[data-submit]");
  if (form) form.requestSubmit();
});
document.addEventListener("formdata", (event) => {
  if (!event.target.matches("form[data-submit]")) return;
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
});

// ── Keys ───────────────────────────────────────────────────────────────────

let chord = "";
const places = { r: "/runs", p: "/pipelines", a: "/agents", m: "/settings/models" };

function open(row) {
  ($("a[data-open]", row) ?? $("a[href]", row))?.click();
}

function move(by) {
  const rows = $$("[data-rows] tbody tr").filter((row) => row.offsetParent);
  if (!rows.length) return;
  const now = rows.findIndex((row) => row.classList.contains("on") || row.contains(document.activeElement));
  const next = rows[Math.min(rows.length - 1, Math.max(0, now < 0 ? 0 : now + by))];
  for (const row of rows) row.classList.toggle("on", row === next);
  ($("a[data-open]", next) ?? $("a[href],button,summary", next))?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input,textarea,select,[contenteditable],dialog[open]")) return;
  const before = chord;
  chord = "";
  if (before === "g" && places[event.key]) {
    location.href = places[event.key];
    return;
  }
  const tabs = $$("nav[aria-label=Run] a");
  const tab = tabs.findIndex((a) => a.hasAttribute("aria-current"));
  switch (event.key) {
    case "g": chord = "g"; break;
    case "?": $("#keys").showModal(); break;
    case "/": {
      const search = $("[data-search]");
      if (search) { event.preventDefault(); search.focus(); search.select(); }
      break;
    }
    case "j": move(1); break;
    case "k": move(-1); break;
    case "[": tabs[tab - 1]?.click(); break;
    case "]": tabs[tab + 1]?.click(); break;
    default: {
      const button = $$("[data-key]").find((b) => b.dataset.key === event.key);
      if (button) { event.preventDefault(); button.click(); }
    }
  }
});

// ── Long lists ─────────────────────────────────────────────────────────────
// A list, [data-chunk], links to its next part (a[data-more][rel=next]) and its
// previous part (rel=prev). A hidden link leads to rows that do not exist yet. When a
// link scrolls into view, its part is loaded into the list. If the rows have positions
// (data-cursor), rows far out of view are removed, and loaded again when scrolled to.
// With data-keep, a refresh does not shorten a list.

const sight = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) more(entry.target);
}, { rootMargin: "800px" });

const long = () => $("[data-chunk]");
const end = (rel) => $(`a[data-more][rel=${rel}]`);

async function part(href) {
  const answer = await fetch(href, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(answer.statusText);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

async function more(link) {
  if (link.dataset.busy) return;
  link.dataset.busy = "1";
  const { rel } = link;
  const there = await part(link.href).catch(() => null);
  delete link.dataset.busy;
  const list = long();
  const chunk = there && $("[data-chunk]", there);
  if (!list || !chunk) return;
  steady(list, () => {
    put(list, [...chunk.children], rel === "next");
    drop(list, rel === "next");
  });
  const next = $(`a[data-more][rel=${rel}]`, there);
  if (next) link.href = next.href;
  link.hidden = !next || next.hidden;
  sight.unobserve(link);
  if (!link.hidden) sight.observe(link);
  tick();
}

// put adds the rows that a list does not contain, ordered by position.
function put(list, rows, down) {
  const known = new Set([...list.children].map((row) => row.id).filter(Boolean));
  const fresh = rows.filter((row) => !known.has(row.id));
  if (!down) {
    list.prepend(...fresh);
    return;
  }
  const place = (row) => parseInt(row.dataset.cursor ?? "", 10) || 0;
  for (const row of fresh) {
    let last = list.lastElementChild;
    while (last && place(last) > place(row)) last = last.previousElementSibling;
    if (last) last.after(row);
    else list.prepend(row);
  }
}

const ROWS_KEPT = 1200; // maximum number of rows kept in a long list
const FAR = 3000; // distance from the viewport, in pixels, beyond which rows are removed

function drop(list, down) {
  const other = end(down ? "prev" : "next");
  if (!other || !list.firstElementChild?.dataset.cursor) return;
  let dropped = false;
  while (list.children.length > ROWS_KEPT) {
    const row = down ? list.firstElementChild : list.lastElementChild;
    const box = row.getBoundingClientRect();
    if (down ? box.bottom > -FAR : box.top < innerHeight + FAR) break;
    row.remove();
    dropped = true;
  }
  if (!dropped) return;
  const href = new URL(other.href);
  for (const name of ["at", "after", "before"]) href.searchParams.delete(name);
  href.searchParams.set(down ? "before" : "after", (down ? list.firstElementChild : list.lastElementChild).dataset.cursor);
  other.href = href;
  other.hidden = false;
  sight.unobserve(other);
  sight.observe(other);
}

// steady changes a list without moving its visible rows.
function steady(list, change) {
  const seen = [...list.children].find((row) => row.getBoundingClientRect().bottom > 0);
  const before = seen?.getBoundingClientRect().top;
  change();
  if (seen?.isConnected) scrollBy(0, seen.getBoundingClientRect().top - before);
}

// A followed list, [data-follow], stays scrolled to its end until the user scrolls
// up. The URL records the scroll position.
let following = false;
let catching = false;
const atEnd = () => document.documentElement.scrollHeight - innerHeight - scrollY < 60;
const toEnd = () => scrollTo(0, document.documentElement.scrollHeight);

async function catchUp() {
  const list = long();
  const top = list?.dataset.follow === "top"; // newest first
  const link = end(top ? "prev" : "next");
  if (!list || !("follow" in list.dataset) || !link?.hidden || catching) return;
  catching = true;
  const there = await part(link.href).catch(() => null);
  catching = false;
  const chunk = there && $("[data-chunk]", there);
  if (!chunk || !list.isConnected) return;
  const stay = top && scrollY < list.offsetTop; // the newest rows are visible and must remain visible
  const change = () => put(list, [...chunk.children], !top);
  if (stay) change();
  else steady(list, change);
  const next = $(`a[data-more][rel=${link.rel}]`, there);
  if (next && chunk.children.length) link.href = next.href;
  link.hidden = !next || next.hidden;
  if (!link.hidden) sight.observe(link);
  if (following) toEnd();
}

function follow(on) {
  following = on;
  for (const button of $$("[data-follow-end]")) button.hidden = on;
}

// A console, [data-console], shows its last line unless the user has scrolled up.
let reading = false;
document.addEventListener("scroll", (event) => {
  const box = event.target;
  if (box.dataset && "console" in box.dataset) reading = box.scrollHeight - box.clientHeight - box.scrollTop > 40;
}, true);
function lastLine() {
  for (const box of $$("[data-console]")) if (!reading) box.scrollTop = box.scrollHeight;
}

let placing = 0;
addEventListener("scroll", () => {
  const list = long();
  if (!list || !("place" in list.dataset)) return;
  if (list.dataset.follow === "") follow(atEnd() && end("next")?.hidden);
  clearTimeout(placing);
  placing = setTimeout(() => {
    const url = new URL(location);
    for (const name of ["at", "after", "before"]) url.searchParams.delete(name);
    const row = [...list.children].find((r) => r.getBoundingClientRect().top >= 0);
    if (!following && row?.dataset.cursor && row !== list.firstElementChild) url.searchParams.set("at", row.dataset.cursor);
    url.hash = "";
    history.replaceState(null, "", url);
  }, PLACE_AFTER);
}, { passive: true });

document.addEventListener("click", async (event) => {
  const at = (selector) => event.target.closest?.(selector);
  const last = at("[data-follow-end]");
  if (last && end("next")?.hidden) {
    event.preventDefault();
    follow(true);
    toEnd();
    return;
  }
  const error = at("[data-next-error]");
  if (error) {
    const all = $$("[data-chunk] > [data-bad]");
    const now = all.indexOf(document.activeElement);
    const bad = now >= 0 ? all[now + 1] : all.find((row) => row.getBoundingClientRect().top > 90);
    if (bad) {
      event.preventDefault();
      bad.scrollIntoView({ block: "start" });
      scrollBy(0, -60);
      bad.focus({ preventScroll: true });
      return;
    }
    const row = long()?.lastElementChild;
    if (row?.dataset.cursor) {
      const url = new URL(error.href);
      url.searchParams.set("after", row.dataset.cursor);
      error.href = url;
    }
  }
  const whole = at("a[data-whole]");
  if (whole && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    const there = await part(whole.href).catch(() => null);
    const lines = there && $("[data-lines]", there);
    if (!lines) {
      location.href = whole.href;
      return;
    }
    for (const line of $$("[id]", lines)) line.removeAttribute("id"); // several texts use the same line ids
    const rest = $("a[rel=next]", there);
    whole.parentElement.querySelector(":scope > pre")?.remove();
    whole.replaceWith(lines, ...(rest ? [rest] : []));
  }
});

// ── Diffs ──────────────────────────────────────────────────────────────────
// A patch is plain text in the page; diff2html, loaded on demand, renders it.

let drawing = null;

function script(name) {
  const src = new URL("vendor/" + name, import.meta.url);
  return new Promise((done, failed) => {
    const tag = document.createElement("script");
    tag.src = src;
    tag.addEventListener("load", done);
    tag.addEventListener("error", failed);
    document.head.append(tag);
  });
}

function styled(name) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL("vendor/" + name, import.meta.url);
  document.head.prepend(link);
}

// Only diffs in or near the viewport are rendered: a change may have hundreds of files.
const shown = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    shown.unobserve(entry.target);
    drawDiff(entry.target);
  }
}, { rootMargin: "400px" });

function drawDiffs() {
  for (const box of $$("[data-diff]:not([data-drawn])")) {
    shown.unobserve(box);
    shown.observe(box);
  }
}

async function drawDiff(box) {
  if (!drawing) {
    styled("diff2html.min.css");
    drawing = script("diff2html.min.js");
  }
  await drawing;
  const text = $("pre", box);
  if (!text || box.dataset.drawn) return;
  const side = box.dataset.diff === "side" && box.clientWidth > 720;
  const target = document.createElement("div");
  target.className = "drawn";
  target.innerHTML = window.Diff2Html.html(text.textContent, {
    drawFileList: false, matching: "lines", outputFormat: side ? "side-by-side" : "line-by-line", diffMaxChanges: 3000, diffMaxLineLength: 5000,
  });
  for (const part of $$(".d2h-file-side-diff, .d2h-file-diff", target)) part.tabIndex = 0; // it scrolls
  box.dataset.drawn = "1";
  text.hidden = true;
  box.append(target);
}

// unfold fetches the content of a collapsed section when it is first opened.
async function unfold(fold) {
  const body = $(".body", fold);
  const from = fold.dataset.part;
  delete fold.dataset.part;
  const answer = await fetch(from, { headers: { Accept: "text/html" } }).catch(() => null);
  const there = answer?.ok && new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = there && $("details.diff > .body", there);
  if (!fresh) {
    fold.dataset.part = from;
    toast("failed", "Loading this file failed. Open it again to retry.");
    return;
  }
  body.replaceChildren(...fresh.children);
  drawDiffs();
}

// ── Start ──────────────────────────────────────────────────────────────────

function ready() {
  tick();
  drawDiffs();
  for (const link of $$("a[data-more]:not([hidden])")) sight.observe(link);
  catchUp();
  lastLine();
  if ($("[data-charts],a[data-soft]")) import("./charts.js");
  if ($("[data-push]")) import("./push.js");
  for (const button of $$("[data-noscript]")) button.hidden = true;
}
document.addEventListener("rgpt:refreshed", ready);
document.addEventListener("toggle", (event) => {
  if (event.target.open && event.target.dataset.part) unfold(event.target);
}, true);
addEventListener("pagehide", disconnect);
addEventListener("pageshow", () => { connect(); });
liveIs("off");
$("nav.tabs [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
ready();
// On a phone, the tabs are wider than the page: scroll to the current one.
const shownTab = $("nav[aria-label=Run] a[aria-current]");
if (shownTab) {
  const bar = shownTab.parentElement;
  bar.scrollLeft = shownTab.offsetLeft - bar.offsetLeft - (bar.clientWidth - shownTab.clientWidth) / 2;
}
if (long()?.dataset.follow === "" && !location.hash && end("next")?.hidden && !new URL(location).searchParams.has("after")) {
  follow(true);
  toEnd();
} else if (long()?.dataset.place !== undefined && new URL(location).searchParams.get("at") === "end") {
  toEnd();
}
connect();

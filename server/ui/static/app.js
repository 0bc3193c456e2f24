// What pages do beyond being read: they stay live, send commands, and answer to
// keys. Pages arrive rendered and can be read without any of this.

const $ = (selector, from = document) => from.querySelector(selector);
const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
const page = () => $("#page");

// Names of limits and times, in milliseconds.
const REST_LEAST = 50; // after a refresh, before the next one
const REST_MOST = 1000;
const REST_TIMES = 1; // as long as the refresh took: a page is fresh in no time, and a busy server is not asked all the time
const AGAIN_AFTER = 5000; // a refresh that failed is tried again
const PLACE_AFTER = 400; // scrolling stopped: the address says what is in sight
const TICK_EVERY = 1000; // relative times are made true again
const TOAST_FOR = 8000;

// ── Live ───────────────────────────────────────────────────────────────────
// The stream says that something happened; the page is asked for again, as the
// server draws it, and what differs is changed in place. A hidden page holds no
// connection: browsers allow few for each host.

let stream = null;
let refreshing = null;
let again = false;
let retry = 0;
let restUntil = 0;
let lastEvent = null;
let cut = false; // the stream was lost since the page was drawn

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
  stream = new EventSource(url);
  stream.addEventListener("open", () => {
    liveIs("on");
    // A stream without a last id begins with what happens now: what happened while
    // the line was cut is only in the page as it is drawn now.
    if (cut) refresh();
    cut = false;
  });
  stream.addEventListener("error", () => {
    cut = true;
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
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    disconnect();
    liveIs("off");
  } else {
    connect();
    refresh();
  }
});

// refresh asks for the page again, at once when little happens.
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
      again = false; // what happened until now is in what is asked for now
      return load();
    })
    .catch(() => {
      liveIs("reconnecting");
      // What happened last may be in no event that is still to come.
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

// morph makes one tree of the page like another, in place. What people opened,
// wrote or scrolled stays as it is; nothing moves under the pointer.
function morph(from, to) {
  for (const table of $$("[data-hold]:hover", from)) {
    hold(table, to);
  }
  lengthen(from, to);
  window.Idiomorph.morph(from, to, {
    morphStyle: "outerHTML",
    // What has the focus and is no field, such as the page itself after a click
    // beside things, would be left out with all that is in it.
    ignoreActiveValue: Boolean(document.activeElement?.matches("input,textarea,select")),
    callbacks: {
      beforeNodeMorphed: (a, b) => {
        if (a.nodeType !== 1) return true;
        if (a.hasAttribute("data-keep") && a.getAttribute("data-keep") === b.getAttribute?.("data-keep")) return false;
        if (a.tagName === "DETAILS" && a.open) b.setAttribute("open", "");
        if (a.tagName === "DETAILS" && !a.open && a.hasAttribute("data-closed")) {
          b.removeAttribute("open");
          b.setAttribute("data-closed", ""); // also for the next time
        }
        if (a.dataset?.dirty && "value" in a) return false;
        // The button beside a field in use answers what its user saw when writing.
        if (a.dataset?.command && $("[data-dirty]", a.form ?? a) && !refused.has(a.form)) return false;
        return true;
      },
      beforeNodeRemoved: (a) => !(a.nodeType === 1 && a.hasAttribute("data-stay")),
    },
  });
}

const caughtUp = () => refresh();

// hold lets the rows of a table that the pointer is on change, but not move:
// new ones come when the pointer has left.
function hold(table, to) {
  const next = table.id ? $("#" + CSS.escape(table.id), to) : $$("[data-hold]", to)[$$("[data-hold]").indexOf(table)];
  if (!next) return;
  const body = $("tbody", next);
  const rows = new Map([...body.children].map((row) => [row.id, row]));
  const kept = [...$("tbody", table).children].map((row) => rows.get(row.id) ?? row.cloneNode(true));
  if (rows.size !== kept.length || kept.some((row) => !rows.has(row.id))) {
    table.addEventListener("pointerleave", caughtUp, { once: true }); // one and the same: it is added once
  }
  body.replaceChildren(...kept);
}

// lengthen keeps the part of a long list that was scrolled to: the page as the server
// draws it has the beginning, and a link to what follows.
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

// What changes without an event, such as heartbeats, is looked at by the clock.
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

// confirmed asks once, and returns null for no, or what was given: a reason, a name.
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

// fields reads a form as JSON: empty fields are left out, names with a dot are
// no objects, numbers are numbers.
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

const sending = new WeakSet(); // buttons; a refresh meanwhile draws them as if they were not
const refused = new WeakSet(); // forms whose command was about what is no longer so

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
    toast("done", told.message || told.answer?.message || `${button.textContent.trim()}: done`);
    for (const menu of $$("details.menu[open]")) menu.open = false;
    if (form) for (const field of form.elements) delete field.dataset.dirty;
    document.dispatchEvent(new CustomEvent("rgpt:sent", { detail: { name: button.dataset.command, answer: told } }));
    if (button.dataset.then) location.href = button.dataset.then.replace("{runId}", told.runId ?? "");
    else await refresh();
  } catch {
    toast("failed", "The server did not answer. The action may still have been carried out: check before you try again.");
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
      .then(() => toast("done", "Copied"), () => toast("failed", "Copying failed. Download it instead."));
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
// A list, [data-chunk], names the address of what follows (a[data-more][rel=next])
// and of what came before (rel=prev); hidden ones lead to what may come. As they
// come into sight, that part of the list is put here. Of a list whose rows say
// where they are (data-cursor), what has gone far out of sight is dropped, and
// comes again when it is scrolled to. With data-keep no refresh shortens a list.

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

// put adds the rows that a list does not have, in the order of their places.
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

const ROWS_KEPT = 1200; // of a long list
const FAR = 3000; // pixels out of sight

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

// steady changes a list without moving what is in sight.
function steady(list, change) {
  const seen = [...list.children].find((row) => row.getBoundingClientRect().bottom > 0);
  const before = seen?.getBoundingClientRect().top;
  change();
  if (seen?.isConnected) scrollBy(0, seen.getBoundingClientRect().top - before);
}

// A list that is followed, [data-follow], has its end in sight until the user
// scrolls up. The address says what is in sight.
let following = false;
let catching = false;
const atEnd = () => document.documentElement.scrollHeight - innerHeight - scrollY < 60;
const toEnd = () => scrollTo(0, document.documentElement.scrollHeight);

async function catchUp() {
  const list = long();
  const top = list?.dataset.follow === "top"; // what is new comes first
  const link = end(top ? "prev" : "next");
  if (!list || !("follow" in list.dataset) || !link?.hidden || catching) return;
  catching = true;
  const there = await part(link.href).catch(() => null);
  catching = false;
  const chunk = there && $("[data-chunk]", there);
  if (!chunk || !list.isConnected) return;
  const stay = top && scrollY < list.offsetTop; // the newest are in sight, and stay so
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

// A console, [data-console], shows its last line unless the user scrolled up.
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
    for (const line of $$("[id]", lines)) line.removeAttribute("id"); // lines of several texts have the same ones
    const rest = $("a[rel=next]", there);
    whole.parentElement.querySelector(":scope > pre")?.remove();
    whole.replaceWith(lines, ...(rest ? [rest] : []));
  }
});

// ── Diffs ──────────────────────────────────────────────────────────────────
// A patch is text in the page; diff2html, loaded when there is one, draws it.

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

// Those in sight, or nearly, are drawn: a change may have hundreds of files.
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

// unfold fetches what a fold holds when it is opened for the first time.
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
// On a phone, the tabs are wider than the page: the one that is shown is in sight.
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

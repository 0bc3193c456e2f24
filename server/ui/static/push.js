// The form with which this browser subscribes to notifications, on /notifications.

import { refresh, toast } from "./app.js";

const $ = (selector, from = document) => from.querySelector(selector);
const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
const box = () => $("[data-push]");

function bytes(base64url) {
  const text = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(text, (c) => c.charCodeAt(0));
}

function base64url(buffer) {
  return btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

// idOf returns the ID by which the server knows a browser.
async function idOf(endpoint) {
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(endpoint)));
  return [...sum.slice(0, 16)].map((b) => b.toString(16).padStart(2, "0")).join("");
}

// nameOf describes this browser, for the list of browsers.
function nameOf() {
  const agent = navigator.userAgent;
  const browser = [["Edg/", "Edge"], ["OPR/", "Opera"], ["Firefox/", "Firefox"], ["Chrome/", "Chrome"], ["Safari/", "Safari"]].find(([mark]) => agent.includes(mark));
  const system = [["Android", "Android"], ["iPhone", "iPhone"], ["iPad", "iPad"], ["Windows", "Windows"], ["Mac OS", "macOS"], ["Linux", "Linux"]].find(([mark]) => agent.includes(mark));
  return [browser?.[1] ?? "A browser", system && `on ${system[1]}`].filter(Boolean).join(" ");
}

async function ask(method, path, body) {
  const answer = await fetch(path, {
    method, headers: { "Content-Type": "application/json", Accept: "application/json" }, ...(body && { body: JSON.stringify(body) }),
  });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error([told.title ?? answer.statusText, told.detail].filter(Boolean).join(". ")), { status: answer.status });
  return told;
}

// worker registers the service worker and waits until it can be used.
async function worker() {
  await navigator.serviceWorker.register(box().dataset.worker);
  return navigator.serviceWorker.ready;
}

// known returns this browser's subscription for the server's key, and what the server knows of it.
async function known() {
  const registration = await navigator.serviceWorker.getRegistration("/");
  const subscription = await registration?.pushManager.getSubscription();
  if (!subscription) return {};
  const key = subscription.options?.applicationServerKey;
  if (key && base64url(key) !== box().dataset.push) return {}; // the server has another key now
  const id = await idOf(subscription.endpoint);
  const browser = await ask("GET", `/api/browsers/${id}`).catch((error) => {
    if (error.status === 404) return null;
    throw error;
  });
  return { subscription, id, browser };
}

function show(state, words) {
  const tag = $("[data-push-state]");
  if (!tag) return;
  tag.textContent = words;
  const on = $("[data-push-on]");
  on.disabled = state === "impossible";
  $("span", on).textContent = state === "on" ? "Save the choice" : "Notify me in this browser";
  for (const button of $$("[data-push-test],[data-push-off]")) button.hidden = state !== "on";
}

// fill shows the stored choice in the form.
function fill(browser) {
  const form = $("[data-push-form]");
  for (const field of $$("[name=on]", form)) field.checked = !browser.on.length || browser.on.includes(field.value);
  form.elements.mine.checked = browser.mine;
  form.elements.by.value = browser.by ?? "";
  form.elements.projects.value = browser.projects.join(", ");
  form.elements.from.value = browser.quiet?.from ?? "";
  form.elements.to.value = browser.quiet?.to ?? "";
}

// impossible says why this browser cannot be notified; empty if it can.
function impossible() {
  if (!window.isSecureContext) return "needs https";
  if (!("serviceWorker" in navigator) || !("PushManager" in window) || !("Notification" in window)) return "not supported by this browser";
  if (Notification.permission === "denied") return "blocked in the browser's settings";
  return "";
}

async function look() {
  const reason = impossible();
  if (reason) return show("impossible", reason);
  const { browser } = await known();
  if (browser) fill(browser);
  return show(browser ? "on" : "off", browser ? "subscribed" : "not subscribed");
}

function choice(form) {
  const on = $$("[name=on]", form);
  const chosen = on.filter((field) => field.checked).map((field) => field.value);
  if (!chosen.length) throw new Error("Choose at least one thing to be notified of.");
  const { from, to, by, mine, projects } = form.elements;
  if (Boolean(from.value) !== Boolean(to.value)) throw new Error("Quiet hours need a beginning and an end.");
  return {
    on: chosen.length === on.length ? [] : chosen, mine: mine.checked, by: by.value.trim(),
    projects: projects.value.split(",").map((p) => p.trim()).filter(Boolean),
    ...(from.value && { quiet: { from: from.value, to: to.value, zone: Intl.DateTimeFormat().resolvedOptions().timeZone } }),
  };
}

async function subscribe(form) {
  const chosen = choice(form);
  const key = box().dataset.push;
  if (await Notification.requestPermission() !== "granted") throw new Error("The browser does not allow notifications of this page.");
  const registration = await worker();
  let subscription = await registration.pushManager.getSubscription();
  const before = subscription?.options?.applicationServerKey;
  if (before && base64url(before) !== key) {
    await subscription.unsubscribe();
    subscription = null;
  }
  subscription ??= await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytes(key) });
  const { endpoint, keys } = subscription.toJSON();
  await ask("POST", "/api/browsers", { endpoint, keys: { p256dh: keys.p256dh, auth: keys.auth }, server_key: key, browser: nameOf(), ...chosen });
  toast("done", "This browser is notified.");
}

async function unsubscribe() {
  const { subscription, id, browser } = await known();
  await subscription?.unsubscribe();
  if (browser) await ask("DELETE", `/api/browsers/${id}?${new URLSearchParams({ by: browser.by || "dashboard" })}`);
  toast("done", "This browser is not notified any more.");
}

async function test() {
  const { browser } = await known();
  const tested = await ask("POST", `/api/notifications/channels/${browser.channel}/test`);
  if (!tested.sent) throw new Error(`The message was not sent: ${tested.problem}`);
  toast("done", "The push service accepted the message.");
}

let busy = false;

// run does something once at a time, and shows the outcome.
async function run(button, what) {
  if (busy) return;
  busy = true;
  button.setAttribute("aria-busy", "true");
  try {
    await what();
  } catch (error) {
    toast("failed", error.message);
  } finally {
    busy = false;
    button.removeAttribute("aria-busy");
    await look().catch(() => {});
    await refresh();
  }
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-push-form]")) return;
  event.preventDefault();
  run($("[data-push-on]"), () => subscribe(event.target));
});
document.addEventListener("click", (event) => {
  const at = (selector) => event.target.closest?.(selector);
  if (at("[data-push-off]")) run(at("[data-push-off]"), unsubscribe);
  if (at("[data-push-test]")) run(at("[data-push-test]"), test);
});
look().catch((error) => show("impossible", error.message));

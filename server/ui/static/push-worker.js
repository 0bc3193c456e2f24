// The service worker of the dashboard: it shows what the server sends to this browser
// by web push, and opens the page of a notification. It handles no requests.

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  let message = {};
  try {
    message = event.data?.json() ?? {};
  } catch {
    // Browsers require that each message is shown, so this one is shown without content.
  }
  event.waitUntil(self.registration.showNotification(message.title || "RocketGPT", {
    body: message.body ?? "", tag: message.tag, icon: "/static/worker/icon.svg", data: { path: message.path },
  }));
});

// Only pages of this server are opened, whatever a message says.
function pageOf(path) {
  const home = new URL("/notifications", self.location);
  try {
    const url = new URL(path ?? "/notifications", self.location);
    return url.origin === home.origin ? url : home;
  } catch {
    return home;
  }
}

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const url = pageOf(event.notification.data?.path);
  event.waitUntil((async () => {
    const open = await self.clients.matchAll({ type: "window" });
    const same = open.find((client) => new URL(client.url).pathname === url.pathname);
    await (same ? same.focus() : self.clients.openWindow(url.href));
  })());
});

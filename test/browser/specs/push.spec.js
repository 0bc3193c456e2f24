// A browser that is notified. Its push service is the test's; the service worker is real.
import { test, expect } from '../lib/fixtures.js';
import { shots } from '../lib/check.js';

const push = JSON.parse(process.env.RGPT_PUSH);

// The fake keeps its subscription across pages, as browsers do.
async function withPushService(page) {
  await page.addInitScript((given) => {
    const bytes = (text) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
    const subscription = (key) => ({
      endpoint: given.endpoint, options: { userVisibleOnly: true, applicationServerKey: bytes(key).buffer },
      toJSON: () => ({ endpoint: given.endpoint, keys: { p256dh: given.p256dh, auth: given.auth } }),
      unsubscribe: async () => { localStorage.removeItem('pushed'); return true; },
    });
    const kept = () => localStorage.getItem('pushed');
    PushManager.prototype.getSubscription = async () => (kept() ? subscription(kept()) : null);
    PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
      if (!userVisibleOnly) throw new Error('messages must be visible');
      localStorage.setItem('pushed', btoa(String.fromCharCode(...new Uint8Array(applicationServerKey))).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''));
      return subscription(kept());
    };
  }, push);
}

test('a browser subscribes, is tested, shows a message and unsubscribes', async ({ page, context, baseURL }) => {
  await context.grantPermissions(['notifications'], { origin: new URL(baseURL).origin });
  await withPushService(page);
  await page.goto('/notifications');
  const box = page.locator('#this-browser');
  const state = box.getByRole('status');
  await expect(state).toHaveText('not subscribed');
  await box.getByLabel('when a budget').uncheck();
  await box.getByLabel('Only of runs that I created').check();
  await box.getByRole('textbox', { name: 'Your name' }).fill('grace');
  await box.getByLabel('Projects').fill('shop-*, app');
  await box.getByLabel('Quiet from').fill('22:00');
  await box.getByLabel('Quiet until').fill('07:00');
  await box.getByRole('button', { name: 'Notify me in this browser' }).click();
  await expect(state).toHaveText('subscribed');
  const row = page.locator('tr[data-browser]', { hasText: 'grace' });
  await expect(row).toContainText('waits, failed, done, only of their own runs, in shop-*, app');
  await expect(row).toContainText('quiet from 22:00 to 07:00');
  if (shots) await page.screenshot({ path: `${shots}/push-subscribed.png`, fullPage: true });

  await page.reload();
  await expect(state).toHaveText('subscribed');
  await expect(box.getByLabel('when a budget')).not.toBeChecked();
  await expect(box.getByRole('textbox', { name: 'Your name' })).toHaveValue('grace');
  await expect(box.getByRole('button', { name: 'Save the choice' })).toBeEnabled();

  await box.getByRole('button', { name: 'Send a test' }).click();
  await expect(page.locator('.toast', { hasText: 'The push service accepted the message.' })).toBeVisible();

  // What a push service would deliver, into the real service worker.
  const devtools = await context.newCDPSession(page);
  const worker = new Promise((found) => devtools.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => registrations[0] && found(registrations[0])));
  await devtools.send('ServiceWorker.enable');
  const { registrationId } = await worker;
  const deliver = (data) => devtools.send('ServiceWorker.deliverPushMessage', { origin: new URL(baseURL).origin, registrationId, data });
  const shown = () => page.evaluate(async () => (await (await navigator.serviceWorker.ready).getNotifications()).map((n) => [n.title, n.body, n.tag, n.data.path]));
  const message = JSON.stringify({ title: 'Run 7 failed', body: 'Project: <b>app</b>', path: '/runs/7', tag: '1.2' });
  await deliver(message);
  await expect.poll(shown).toEqual([['Run 7 failed', 'Project: <b>app</b>', '1.2', '/runs/7']]);
  await deliver(message);
  await expect.poll(shown, 'a repeated message replaces the first one').toHaveLength(1);

  await box.getByRole('button', { name: 'Stop' }).click();
  await expect(state).toHaveText('not subscribed');
  await expect(row).toHaveCount(0);
});

test('a choice that makes no sense is refused on the page', async ({ page, context, baseURL }) => {
  await context.grantPermissions(['notifications'], { origin: new URL(baseURL).origin });
  await withPushService(page);
  await page.goto('/notifications');
  const box = page.locator('#this-browser');
  await expect(box.getByRole('status')).toHaveText('not subscribed');
  await box.getByLabel('Quiet from').fill('22:00');
  await box.getByRole('button', { name: 'Notify me in this browser' }).click();
  await expect(page.locator('.toast', { hasText: 'Quiet hours need a beginning and an end.' })).toBeVisible();
  await expect(box.getByRole('status')).toHaveText('not subscribed');
});

// What every test of a page has: nothing may go wrong unseen.
import { test as base, expect } from '@playwright/test';

/** Complaints collects what went wrong on a page, in words. */
class Complaints {
  constructor() {
    this.list = [];
    this.allowed = [];
  }

  /** allow lets complaints that match pass: those that a test provokes. */
  allow(pattern) {
    this.allowed.push(pattern);
  }

  add(text) {
    if (!this.allowed.some((p) => p.test(text))) this.list.push(text);
  }

  /** none requires that nothing went wrong so far. */
  none() {
    expect(this.list, 'what went wrong on the page').toEqual([]);
  }
}

/** watch notes errors of the console and of scripts, violations of the page's policy, requests to other origins, dialogs and new windows. */
export async function watch(page, origin, complaints = new Complaints()) {
  page.on('console', (m) => {
    if (m.type() === 'error' || /content security policy|violat/i.test(m.text())) complaints.add(`console: ${m.text()} (${m.location().url})`);
  });
  page.on('pageerror', (e) => complaints.add(`script: ${e}`));
  page.on('dialog', (d) => {
    complaints.add(`dialog: ${d.message()}`);
    return d.dismiss();
  });
  page.on('popup', (p) => complaints.add(`window: ${p.url()}`));
  page.on('request', (r) => {
    const url = new URL(r.url());
    if (!['data:', 'blob:', 'about:'].includes(url.protocol) && url.host !== new URL(origin).host) complaints.add(`outside request: ${r.method()} ${r.url()}`);
  });
  page.on('response', (r) => {
    if (r.status() >= 400) complaints.add(`answer ${r.status()}: ${r.request().method()} ${r.url()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (e) => {
      console.error(`policy: ${e.violatedDirective} refused ${e.blockedURI || e.sample || 'inline code'}`);
    });
  });
  return complaints;
}

export const test = base.extend({
  /** complaints of the page; any fails the test at its end. */
  complaints: [
    async ({ page, baseURL }, use) => {
      const complaints = await watch(page, baseURL);
      await use(complaints);
      complaints.none();
    },
    { auto: true },
  ],
});

export { expect };

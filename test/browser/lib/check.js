import fs from 'node:fs';
import path from 'node:path';
import AxeBuilder from '@axe-core/playwright';
import { expect } from '@playwright/test';

const bad = ['serious', 'critical'];

/** accessible requires that axe finds nothing serious; the rest it lists in the report. */
export async function accessible(page, info) {
  // In the page itself, not in a window beside it, which would be a complaint.
  const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).analyze();
  const told = (v) => `${v.impact}: ${v.id} (${v.help}) at ${v.nodes.slice(0, 5).map((n) => n.target.join(' ')).join(', ')}${v.nodes.length > 5 ? ` and ${v.nodes.length - 5} more` : ''}`;
  for (const v of violations.filter((v) => !bad.includes(v.impact))) {
    info.annotations.push({ type: 'axe', description: told(v) });
    console.log(`axe, ${page.url()}: ${told(v)}`);
  }
  expect(violations.filter((v) => bad.includes(v.impact)).map(told), 'what axe finds serious').toEqual([]);
}

/** contrasts requires that texts can be told from what is behind them, in the theme that is chosen now. */
export async function contrasts(page) {
  const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).withRules(['color-contrast']).analyze();
  expect(violations.flatMap((v) => v.nodes.map((n) => `${n.target.join(' ')}: ${n.any.map((a) => a.message).join(' ')}`)), 'what has too little contrast').toEqual([]);
}

/** fits requires that the page does not scroll sideways. */
export async function fits(page) {
  const { width, wide } = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const inScroller = (e) => {
      for (let p = e.parentElement; p && p !== document.body; p = p.parentElement) {
        if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(p).overflowX)) return true;
      }
      return false;
    };
    const scrolls = Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) > width;
    const wide = scrolls ? [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > width + 1 && !inScroller(e)).map((e) => `${e.tagName.toLowerCase()}.${e.className}`) : [];
    return { width, wide: scrolls ? [`scrolls to ${document.documentElement.scrollWidth}`, ...wide.slice(0, 5)] : [] };
  });
  expect(wide, `what is wider than ${width}`).toEqual([]);
}

/** shots is the folder for screenshots, RGPT_SHOTS; empty: none are taken. */
export const shots = process.env.RGPT_SHOTS;

// A picture that is taller than this is no picture that anybody looks at.
const tallest = 12_000;

/** shoot takes the first screen and the whole page. */
export async function shoot(page, name) {
  fs.mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: path.join(shots, `${name}.png`), animations: 'disabled' });
  const size = await page.evaluate(() => ({ width: document.documentElement.clientWidth, height: document.documentElement.scrollHeight }));
  await page.screenshot({ path: path.join(shots, `${name}-full.png`), animations: 'disabled', fullPage: true, clip: { x: 0, y: 0, width: size.width, height: Math.min(size.height, tallest) } });
}

/** tabTo presses Tab until an element has the focus, as somebody without a mouse does. */
export async function tabTo(page, locator, most = 200) {
  for (let i = 0; i < most; i++) {
    if (await locator.evaluate((e) => e === document.activeElement)) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`after ${most} times Tab the focus has not reached ${locator}`);
}

/** keys presses keys one after the other, such as 'g', 'r'. */
export async function keys(page, ...all) {
  for (const key of all) await page.keyboard.press(key);
}

/** focusShows requires that the element with the focus can be seen to have it. */
export async function focusShows(page) {
  const shown = await page.evaluate(() => {
    const style = getComputedStyle(document.activeElement);
    return document.activeElement === document.body || style.outlineStyle !== 'none' || style.boxShadow !== 'none';
  });
  expect(shown, 'the element with the focus shows it').toBe(true);
}

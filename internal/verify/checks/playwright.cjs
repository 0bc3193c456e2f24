// Starts Playwright with the repository's configuration and the additions of function overlay, which
// keep what explains a failed test. It runs in the sandbox, in the directory of the tests:
//
//   node playwright.cjs --record=nothing|failures|tests test [--config=FILE] [--files=FILE] [ARGUMENT]...
//
// With nothing, only the screenshot of a failed test is added to what the repository itself records.
// With failures, all tests are recorded and the recordings of failed ones kept; with tests, those of
// all tests.
// Lines of stderr that begin with "RocketGPT: " become findings of the check.
'use strict';

const fs = require('fs');
const os = require('os');
const path = require('path');
const { spawnSync } = require('child_process');

// Playwright's own list, in its order.
const EXTENSIONS = ['.ts', '.js', '.mts', '.mjs', '.cts', '.cjs'];

// overlay returns a configuration that records what facts.record says, and starts an installed
// Chromium where the bundled one is missing. Whatever keeps more stays as it is, except videos that
// cannot be recorded.
// Its source becomes part of the generated configuration, so it uses nothing from outside.
function overlay(loaded, facts) {
  const own = loaded && typeof loaded === 'object' && 'default' in loaded ? loaded.default : loaded;
  if (!own || typeof own !== 'object') return own; // Playwright explains what is wrong with it
  const keepsFailures = ['on', 'retain-on-failure', 'retain-on-first-failure', 'retain-on-failure-and-retries'];
  const keepsRetries = ['on-first-retry', 'on-all-retries', 'retry-with-trace', 'retry-with-video'];
  const recording = (value) => {
    if (facts.record === 'nothing') return value;
    const mode = (value && typeof value === 'object' ? value.mode : value) || 'off';
    if (facts.record === 'tests') return value && typeof value === 'object' ? { ...value, mode: 'on' } : 'on';
    if (keepsFailures.includes(mode) || (mode !== 'off' && !keepsRetries.includes(mode))) return value;
    const raised = mode !== 'off' && facts.retries ? 'retain-on-failure-and-retries' : 'retain-on-failure';
    return value && typeof value === 'object' ? { ...value, mode: raised } : raised;
  };
  const picture = (value) => {
    const mode = (value && typeof value === 'object' ? value.mode : value) || 'off';
    if (mode !== 'off' && facts.record !== 'tests') return value;
    const raised = facts.record === 'tests' ? 'on' : 'only-on-failure';
    return value && typeof value === 'object' ? { ...value, mode: raised } : raised;
  };
  const browser = (use, inherited) => {
    const get = (name) => (use[name] === undefined ? inherited[name] : use[name]);
    const launch = get('launchOptions') || {};
    const name = get('browserName') || get('defaultBrowserType') || 'chromium';
    const channel = get('channel') || launch.channel;
    if (name !== 'chromium' || (channel && channel !== 'chromium') || launch.executablePath || get('connectOptions')) return {};
    const headless = get('headless') === undefined ? launch.headless !== false : get('headless');
    const missing = headless && !channel ? facts.missingShell : facts.missingBrowser;
    return missing && facts.chromium ? { launchOptions: { ...launch, executablePath: facts.chromium } } : {};
  };
  const raise = (use, inherited) => {
    const get = (name) => (use[name] === undefined ? inherited[name] : use[name]);
    const out = { ...use, trace: recording(get('trace')), screenshot: picture(get('screenshot')), ...browser(use, inherited) };
    // A recorded page cannot be reused by the next test, which may rely on it.
    if (!facts.video) out.video = 'off'; // otherwise each page fails to open
    else if (!get('reuseContext') && get('_optionContextReuseMode') !== 'when-possible') out.video = recording(get('video'));
    return out;
  };
  const use = own.use || {};
  const config = { ...own, use: raise(use, {}) };
  if (facts.record === 'tests') config.preserveOutput = 'always';
  else if (own.preserveOutput === 'never') config.preserveOutput = 'failures-only';
  if (Array.isArray(own.projects)) {
    config.projects = own.projects.map((p) => (p && typeof p === 'object' ? { ...p, use: raise(p.use || {}, use) } : p));
  }
  return config;
}

const say = (text) => process.stderr.write(`RocketGPT: ${text}\n`);

// find returns the first existing file of a package, searched as Node does from the working
// directory upwards, and then in the packages that the worker provides.
function find(file) {
  const folders = [];
  for (let dir = process.cwd(); ; dir = path.dirname(dir)) {
    folders.push(path.join(dir, 'node_modules'));
    if (dir === path.dirname(dir)) break;
  }
  if (process.env.RGPT_NODE_MODULES) folders.push(process.env.RGPT_NODE_MODULES);
  return folders.map((dir) => path.join(dir, file)).find((p) => fs.existsSync(p));
}

const json = (file) => JSON.parse(fs.readFileSync(file, 'utf8'));

function executable(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

function inPath(names) {
  const dirs = (process.env.PATH || '').split(path.delimiter).filter((dir) => path.isAbsolute(dir));
  return names.flatMap((name) => dirs.map((dir) => path.join(dir, name))).find(executable);
}

// browsersFolder returns where Playwright expects its browsers.
function browsersFolder(core) {
  const given = process.env.PLAYWRIGHT_BROWSERS_PATH;
  if (given === '0') return path.join(core, '.local-browsers');
  if (given) return path.resolve(process.env.INIT_CWD || process.cwd(), given);
  return path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'ms-playwright');
}

// installed returns the directory of a program that this version of Playwright downloads, and
// whether it is complete. It is undefined if this version has no such program.
function installed(core, name) {
  const known = json(path.join(core, 'browsers.json')).browsers.find((b) => b.name === name);
  if (!known) return undefined;
  const dir = path.join(browsersFolder(core), `${name.replace(/-/g, '_')}-${known.revision}`);
  return { dir, complete: fs.existsSync(path.join(dir, 'INSTALLATION_COMPLETE')) };
}

// video reports whether videos can be recorded. Without Playwright's ffmpeg, that of the system is
// put where Playwright looks for it.
function video(core, version) {
  const own = installed(core, 'ffmpeg');
  if (!own || own.complete) return true;
  const other = inPath(['ffmpeg']);
  if (!other) {
    say(`No videos of failed tests: ffmpeg is not installed. Install it on the worker (apt-get install ffmpeg), or let the setup run \`npx playwright@${version} install ffmpeg\``);
    return false;
  }
  try {
    fs.mkdirSync(own.dir, { recursive: true });
    fs.symlinkSync(other, path.join(own.dir, 'ffmpeg-linux'));
    fs.writeFileSync(path.join(own.dir, 'INSTALLATION_COMPLETE'), '');
    return true;
  } catch (e) {
    say(`No videos of failed tests: ${other} cannot be linked into ${own.dir}: ${e.message}`);
    return false;
  }
}

// packages returns the directories of Playwright's packages: that with the types, and that with the
// browsers. Old versions have no package playwright, and package managers nest them differently.
function packages(cli) {
  let types = path.dirname(fs.realpathSync(cli));
  const beside = (name) => path.dirname(require.resolve(`${name}/package.json`, { paths: [types] }));
  try {
    types = beside('playwright');
  } catch {
    // before 1.38
  }
  return { types, core: beside('playwright-core') };
}

// examine returns what overlay needs to know about this installation of Playwright.
function examine(cli, record) {
  const { types, core } = packages(cli);
  const { version } = json(path.join(core, 'package.json'));
  const full = installed(core, 'chromium');
  const shell = installed(core, 'chromium-headless-shell') || full;
  const given = [process.env.PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH, process.env.RGPT_CHROMIUM];
  const facts = {
    record,
    missingBrowser: !full || !full.complete,
    missingShell: !shell || !shell.complete,
    chromium: given.find((p) => p && executable(p)) || inPath(['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome']),
    video: video(core, version),
    retries: fs.readFileSync(path.join(types, 'types', 'test.d.ts'), 'utf8').includes("'retain-on-failure-and-retries'"),
  };
  if (facts.missingShell && !facts.chromium) {
    say(`There is no Chromium for Playwright ${version}, so tests that open a page fail. Install one on the worker (apt-get install chromium), name it in RGPT_CHROMIUM, or let the setup run \`npx playwright@${version} install chromium\``);
  }
  return facts;
}

// configuration returns the file that Playwright would read, or undefined if there is none.
function configuration(given) {
  const at = path.resolve(given || '.');
  if (!fs.existsSync(at) || !fs.statSync(at).isDirectory()) return at;
  return EXTENSIONS.map((ext) => path.join(at, `playwright.config${ext}`)).find((p) => fs.existsSync(p));
}

function isModule(file) {
  const ext = path.extname(file);
  if (/^\.m/.test(ext)) return true;
  if (/^\.c/.test(ext)) return false;
  for (let dir = path.dirname(file); ; dir = path.dirname(dir)) {
    const manifest = path.join(dir, 'package.json');
    if (fs.existsSync(manifest)) {
      try {
        return json(manifest).type === 'module';
      } catch {
        return false;
      }
    }
    if (dir === path.dirname(dir)) return false;
  }
}

// write puts the overlay beside the configuration, so that Playwright and Node resolve all paths as
// before, and loads it in the same way. Without a configuration, the directory decides.
function write(config, dir, facts) {
  const base = config ? path.basename(config) : 'playwright.config.cjs';
  const file = path.join(dir, `.rgpt-${base}`);
  const original = JSON.stringify(`./${base}`);
  const asModule = Boolean(config) && isModule(config);
  const text = [
    '// @ts-nocheck',
    '/* eslint-disable */',
    asModule ? `import * as original from ${original};` : `const original = ${config ? `require(${original})` : '{}'};`,
    overlay.toString(),
    `const config = overlay(original, ${JSON.stringify(facts)});`,
    asModule ? 'export default config;' : 'module.exports = config;',
    '',
  ];
  fs.rmSync(file, { force: true });
  fs.writeFileSync(file, text.join('\n'), { flag: 'wx' });
  process.on('exit', () => fs.rmSync(file, { force: true }));
  return file;
}

// selected replaces --files=FILE by patterns that match exactly the files that it lists, or all others.
function selected(args) {
  const at = args.findIndex((a) => a.startsWith('--files='));
  if (at < 0) return args;
  const { files, except } = json(args[at].slice('--files='.length));
  const literal = (f) => path.resolve(f).replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
  const patterns = except ? [`/^(?!(?:${files.map(literal).join('|')})$)/`] : files.map((f) => `/^${literal(f)}$/`);
  return [...args.slice(0, at), ...patterns, ...args.slice(at + 1)];
}

function start(cli, args) {
  if (!cli) {
    const done = spawnSync('npx', ['--no-install', 'playwright', ...args], { stdio: 'inherit' });
    if (done.error) say(`npx cannot be started: ${done.error.message}`);
    process.exit(done.error ? 127 : done.status === null ? 1 : done.status);
  }
  process.argv = [process.argv[0], cli, ...args];
  require(cli);
}

function main() {
  const record = process.argv[2].slice('--record='.length);
  const args = selected(process.argv.slice(3));
  const cli = find('@playwright/test/cli.js');
  const at = args.findIndex((a) => a.startsWith('--config='));
  try {
    if (!cli) throw new Error('@playwright/test is not in node_modules');
    const config = configuration(at < 0 ? '' : args[at].slice('--config='.length));
    const file = write(config, config ? path.dirname(config) : process.cwd(), examine(cli, record));
    args.splice(at < 0 ? args.length : at, at < 0 ? 0 : 1, `--config=${file}`);
  } catch (e) {
    say(`Failed tests keep only what the repository's own configuration asks for: ${e.message}`);
    if (cli && record !== 'nothing') args.push(record === 'tests' ? '--trace=on' : '--trace=retain-on-failure');
  }
  start(cli, args);
}

main();

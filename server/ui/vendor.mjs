// Copies what the dashboard takes from npm into the folders that the Go binary
// embeds: scripts, fonts and the icons that are named here.
import { copyFileSync, readFileSync, writeFileSync, mkdirSync, rmSync } from "node:fs";

const icons = `activity archive arrow-down arrow-left arrow-right arrow-up-right ban bandage bell bot box braces check chevron-down chevron-right chevrons-left
  chevrons-right circle circle-alert circle-check circle-dashed circle-dot circle-pause circle-play circle-stop circle-x clock coins copy cpu download
  external-link eye file file-archive file-diff file-text film filter flag flask-conical git-branch git-commit-horizontal git-compare git-fork git-pull-request
  hand hammer history image info keyboard layers link list list-checks list-filter loader-circle maximize-2 memory-stick menu minus monitor moon network
  octagon-x package pause play plus radio refresh-cw rocket rotate-ccw route scroll-text search send server settings-2 shield-check shield-alert shuffle
  skip-forward square-terminal step-forward sun timer triangle-alert user users wallet webhook workflow wrench x zoom-in zoom-out`.split(/\s+/);

const from = (path) => new URL(`node_modules/${path}`, import.meta.url);
const to = (path) => new URL(path, import.meta.url);

for (const dir of ["icons", "static/fonts", "static/vendor"]) {
  rmSync(to(dir), { recursive: true, force: true });
  mkdirSync(to(dir), { recursive: true });
}
copyFileSync(from("idiomorph/dist/idiomorph.min.js"), to("static/vendor/idiomorph.min.js"));
copyFileSync(from("diff2html/bundles/js/diff2html.min.js"), to("static/vendor/diff2html.min.js"));
copyFileSync(from("diff2html/bundles/css/diff2html.min.css"), to("static/vendor/diff2html.min.css"));
for (const subset of ["latin", "latin-ext", "cyrillic", "greek"]) {
  copyFileSync(from(`@fontsource-variable/inter/files/inter-${subset}-wght-normal.woff2`), to(`static/fonts/inter-${subset}.woff2`));
}
for (const subset of ["latin", "latin-ext", "cyrillic"]) {
  copyFileSync(from(`@fontsource-variable/jetbrains-mono/files/jetbrains-mono-${subset}-wght-normal.woff2`), to(`static/fonts/mono-${subset}.woff2`));
}
for (const [name, path] of [["idiomorph", "idiomorph/LICENSE"], ["diff2html", "diff2html/LICENSE.md"], ["lucide", "lucide-static/LICENSE"],
  ["inter", "@fontsource-variable/inter/LICENSE"], ["jetbrains-mono", "@fontsource-variable/jetbrains-mono/LICENSE"]]) {
  copyFileSync(from(path), to(`static/vendor/LICENSE.${name}.txt`));
}
for (const name of icons) {
  const shapes = readFileSync(from(`lucide-static/icons/${name}.svg`), "utf8").replace(/[\s\S]*?<svg[^>]*>/, "").replace(/<\/svg>\s*$/, "");
  writeFileSync(to(`icons/${name}.svg`), shapes.split("\n").map((line) => line.trim()).filter(Boolean).join("\n") + "\n");
}

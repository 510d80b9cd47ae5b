// @vitest-environment node
/** What a first visit loads, of the page as it was built: run `make web` before, as `make check-web` does. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { describe, expect, it } from "vitest";

const BUILT = fileURLToPath(new URL("../../services/gateway/netaclaw_gateway/static", import.meta.url));
/** Bytes as the gateway sends them, code highlighting and mathematics not among them. */
const MOST = 300_000;
/** Fonts are as small as they get; of the alphabets a page in English or Chinese loads this one. */
const FONT = /inter-latin-wght-normal-[\w-]+\.woff2/;

const read = (name: string) => readFileSync(`${BUILT}/${name}`);
const sent = (name: string) => (name.endsWith(".woff2") ? read(name).length : gzipSync(read(name)).length);
const names = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map((match) => match[1] ?? "");

/** A script with everything that it imports before it runs. */
function withImports(name: string, found = new Set<string>()): Set<string> {
  if (found.has(name)) return found;
  found.add(name);
  for (const next of names(read(name).toString(), /(?:from|import)\s*["'`]\.\/([\w.-]+\.js)["'`]/g)) {
    withImports(`assets/${next}`, found);
  }
  return found;
}

describe.skipIf(!existsSync(`${BUILT}/index.html`))("the built page", () => {
  const html = existsSync(`${BUILT}/index.html`) ? read("index.html").toString() : "";
  const entries = names(html, /<script type="module"[^>]* src="\/([^"]+)"/g);
  const styles = names(html, /<link rel="stylesheet"[^>]* href="\/([^"]+)"/g);
  const scripts = new Set(entries.flatMap((entry) => [...withImports(entry)]));
  const worker = [...scripts].flatMap((name) =>
    names(read(name).toString(), /["'`]\/(assets\/worker-[\w-]+\.js)["'`]/g),
  );

  it("is loaded first within 300 kB", () => {
    expect(entries).toHaveLength(1);
    expect(worker).toHaveLength(1);
    const styled = styles.map((name) => read(name).toString()).join("");
    const font = names(styled, new RegExp(`(assets/${FONT.source})`, "g")).slice(0, 1);
    const all = ["index.html", "theme.js", "icon.svg", ...styles, ...font, ...scripts, ...worker];
    const sizes = Object.fromEntries(all.map((name) => [name, sent(name)]));
    const total = Object.values(sizes).reduce((sum, size) => sum + size, 0);
    expect(font).toHaveLength(1);
    expect(total, JSON.stringify(sizes, undefined, 1)).toBeLessThan(MOST);
  });

  it("gives the worker no second copy of the stubs", () => {
    const alone = [...withImports(worker[0] ?? "")].filter((name) => !scripts.has(name));
    expect(alone).toEqual(worker);
    expect(sent(worker[0] ?? "")).toBeLessThan(3_000);
  });
});

/** Both languages have every string, and no text stands in a template beside them. */
import { readdirSync, readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { en } from "../src/i18n/en";
import { zh } from "../src/i18n/zh";

function flat(messages: object, prefix = ""): Map<string, string> {
  return new Map(
    Object.entries(messages).flatMap(([key, value]) =>
      typeof value === "string" ? [[prefix + key, value] as const] : [...flat(value, `${prefix}${key}.`)],
    ),
  );
}

const names = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();

describe("the two languages", () => {
  const [english, chinese] = [flat(en), flat(zh)];

  it("have the same keys with the same fields", () => {
    expect([...chinese.keys()].sort()).toEqual([...english.keys()].sort());
    for (const [key, text] of english) {
      expect([key, [...new Set(names(chinese.get(key) ?? ""))]]).toEqual([key, [...new Set(names(text))]]);
    }
  });

  it("leave nothing empty and nothing untranslated", () => {
    const same = [...english].filter(([key, text]) => chinese.get(key) === text).map(([key]) => key);
    expect(same.filter((key) => key !== "app.name" && key !== "compaction.figures")).toEqual([]);
    expect([...english, ...chinese].filter(([, text]) => !text.trim())).toEqual([]);
  });
});

describe("templates", () => {
  const files = readdirSync("src", { recursive: true })
    .map(String)
    .filter((name) => name.endsWith(".vue"));

  it.each(files)("%s holds no words of its own", (name) => {
    const template = /<template>([\s\S]*)<\/template>/.exec(readFileSync(`src/${name}`, "utf8"))?.[1] ?? "";
    const texts = template.replace(/\{\{[\s\S]*?\}\}/g, "").replace(/<(?:"[^"]*"|'[^']*'|[^>"'])*>/g, "\n");
    const words = texts
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => /\p{L}{2,}/u.test(line));
    expect(words.filter((word) => word !== "tok")).toEqual([]);
    expect(
      template.match(/\s(?:aria-label|placeholder|title)="[^"]*\p{L}/gu)?.filter((found) => !/\s:/.test(found)) ?? [],
    ).toEqual([]);
  });
});

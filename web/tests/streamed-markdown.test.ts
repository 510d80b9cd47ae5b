import { describe, expect, it } from "vitest";

import { grammarOf, highlight } from "../src/model/highlighting";
import { copiedText, languageOf, rendered } from "../src/model/markdown";
import { typeset } from "../src/model/math";
import { StreamedMarkdown } from "../src/model/streamed-markdown";

const LONG = Array.from(
  { length: 110 },
  (_, n) => `Paragraph ${n} with **words** and \`code\`.\n\n- a\n- b ${n}\n\n`,
).join("");

/** What a reader sees, without the boxes that blocks are kept in. */
function blocks(root: HTMLElement): string {
  return [...root.children].map((box) => box.innerHTML).join("");
}

function whole(text: string): string {
  const box = document.createElement("div");
  box.append(rendered(text, "Copy"));
  return box.innerHTML;
}

describe("a text drawn as it comes", () => {
  it("ends as the same text drawn at once, and keeps the nodes of what was finished", () => {
    const root = document.createElement("div");
    const drawn = new StreamedMarkdown(root, "Copy");
    let first: Element | null = null;
    for (let end = 0; end < LONG.length; end += 401) {
      drawn.grow(LONG.slice(0, end), end * 1000);
      first ??= root.querySelector(".group p");
      if (first) expect(root.querySelector(".group p")).toBe(first);
    }
    drawn.end(LONG);
    expect(first).not.toBeNull();
    expect(root.querySelector(".group p")).toBe(first);
    expect(blocks(root)).toBe(whole(LONG));
    expect(root.querySelectorAll(".group").length).toBeGreaterThan(1);
  });

  it("is drawn at a pace, slower where frames take long", () => {
    const root = document.createElement("div");
    const drawn = new StreamedMarkdown(root, "Copy");
    const drawnAt = (frameMs: number, from: number) => {
      const times: number[] = [];
      for (let now = from; now < from + 600; now += frameMs)
        if (drawn.grow(`Text at ${now}`, now)) times.push(now - from);
      return times;
    };
    expect(drawnAt(16, 0).slice(0, 3)).toEqual([0, 48, 96]);
    expect(drawnAt(100, 10_000).slice(0, 2)).toEqual([0, 300]);
    expect(root.textContent?.trim()).toMatch(/^Text at/);
  });

  it("resolves references that are defined at its end", () => {
    const root = document.createElement("div");
    const drawn = new StreamedMarkdown(root, "Copy");
    const text = "See [the page][1].\n\nMore.\n\n[1]: https://a.example\n";
    for (let end = 1; end < text.length; end += 5) drawn.grow(text.slice(0, end), end * 1000);
    drawn.end(text);
    expect(root.querySelector("a")?.href).toBe("https://a.example/");
  });

  it("begins again when it is told another text", () => {
    const root = document.createElement("div");
    const drawn = new StreamedMarkdown(root, "Copy");
    drawn.grow("One.\n\nTwo.\n\nThree", 0);
    drawn.grow("Another", 1000);
    drawn.end("Another one.");
    expect(root.textContent?.trim()).toBe("Another one.");
  });
});

describe("code", () => {
  it("gets classes and no styles, and keeps its text", async () => {
    const code = document.createElement("code");
    const text = 'def f(a):\n    # why\n    return "<script>" + str(1)\n';
    code.textContent = text;
    await highlight(code, "py");
    expect(code.textContent).toBe(text);
    expect(code.querySelector(".hl-keyword")?.textContent).toBe("def");
    expect(code.querySelector(".hl-comment")).not.toBeNull();
    expect(code.querySelectorAll("[style], script").length).toBe(0);
  });

  it("of an unknown language, or too long, stays plain", async () => {
    expect(grammarOf("constructor")).toBeUndefined();
    const code = document.createElement("code");
    code.textContent = "x = 1\n".repeat(10_000);
    await highlight(code, "python");
    expect(code.children.length).toBe(0);
  });

  it("is copied as it stands, a table with tabs", () => {
    const box = document.createElement("div");
    box.append(rendered("```py\na = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", "Copy"));
    const [code, table] = box.querySelectorAll("button.copy");
    expect(languageOf(box.querySelector("pre > code"))).toBe("py");
    expect(code && copiedText(code)).toBe("a = 1\n");
    expect(table && copiedText(table)).toBe("a\tb\n1\t2");
  });
});

describe("mathematics", () => {
  const found = (text: string) => {
    const box = document.createElement("div");
    box.append(rendered(text, "Copy"));
    return [...box.querySelectorAll("code[class^=math]")].map((code) => [code.className, code.textContent]);
  };

  it("is found in lines and on lines of its own", () => {
    expect(found("It is $a_1 * b_2$, \\(x\\) too.")).toEqual([
      ["math-inline", "a_1 * b_2"],
      ["math-inline", "x"],
    ]);
    expect(found("$$\na < b\n$$\n\n\\[ c \\]\n")).toEqual([
      ["math-display", "a < b"],
      ["math-display", "c"],
    ]);
  });

  it("is not found in money, code and what does not end", () => {
    expect(found("It costs $5 and $6, `$a$`, or \\$1$, $a $ and $$")).toEqual([]);
    expect(found("```\n$a$\n```\n")).toEqual([]);
  });

  it.each([
    "\\href{javascript:alert(1)}{x}",
    "\\url{https://evil.example}",
    "\\includegraphics{https://evil.example/a.png}",
    "\\htmlStyle{background:url(https://evil.example)}{x}",
    "\\htmlClass{a}{x}",
    "\\def\\a{\\a\\a}\\a",
    "\\frac{",
    "<img src=x onerror=alert(1)>",
  ])("%s sets no link and loads nothing", async (tex) => {
    const box = document.createElement("div");
    const code = Object.assign(document.createElement("code"), { className: "math-inline", textContent: tex });
    box.append(code);
    await typeset([code]);
    expect(box.querySelectorAll("a, img, script, iframe, [href], [src], [onerror]").length).toBe(0);
    const styles = [...box.querySelectorAll("[style]")].map((each) => each.getAttribute("style"));
    expect(styles.filter((style) => style?.includes("url"))).toEqual([]);
  });

  it("is typeset, its source kept for readers", async () => {
    const box = document.createElement("div");
    const code = Object.assign(document.createElement("code"), { className: "math-display", textContent: "x^2" });
    box.append(code);
    await typeset([code]);
    expect(box.querySelector(".math-display .katex-html")).not.toBeNull();
    expect(box.querySelector("math annotation")?.textContent).toBe("x^2");
  });
});

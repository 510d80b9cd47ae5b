import { describe, expect, it } from "vitest";

import { finishedEnd, rendered } from "../src/model/markdown";

function html(text: string): string {
  const box = document.createElement("div");
  box.append(rendered(text, "Copy"));
  return box.innerHTML;
}

const HOSTILE = [
  "<script>alert(1)</script>",
  '<img src=x onerror="alert(1)">',
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](data:text/html;base64,PHNjcmlwdD4=)",
  "![x](https://evil.example/x.png)",
  "<svg onload=alert(1)>",
  '<a href="vbscript:x">y</a>',
  "<style>@import 'https://evil.example'</style>",
  '```html" onmouseover="alert(1)\n<b>\n```',
  "<https://evil.example/onerror=alert(1)>",
  '<form action="https://evil.example"><input></form>',
];

describe("hostile text", () => {
  it.each(HOSTILE)("%s becomes nothing that acts", (text) => {
    for (let end = 1; end <= text.length; end += 1) {
      const box = document.createElement("div");
      box.append(rendered(text.slice(0, end), "Copy"));
      expect(box.querySelectorAll("script, img, svg, iframe, style, form, input, link, object").length).toBe(0);
      for (const element of box.querySelectorAll("*")) {
        const acting = element
          .getAttributeNames()
          .filter((name) => name.startsWith("on") || name === "style" || name === "src");
        expect(acting).toEqual([]);
        const target = element.getAttribute("href");
        if (target !== null) expect(target).toMatch(/^(https?|mailto):/);
      }
    }
  });

  it("links open elsewhere and tell nothing of this page", () => {
    expect(html("[a](https://a.example)")).toContain('rel="noopener noreferrer nofollow"');
  });
});

describe("a growing text", () => {
  const text =
    "# Title\n\nA paragraph\nof two lines.\n\n- one\n\n- two\n\n```py\na\n\nb\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThe end.\n";

  it("never takes back what was finished, and ends as the whole", () => {
    let done = 0;
    let parts = "";
    for (let end = 1; end <= text.length; end += 1) {
      const next = finishedEnd(text.slice(0, end), done);
      expect(next).toBeGreaterThanOrEqual(done);
      parts += html(text.slice(done, next));
      done = next;
    }
    expect(parts + html(text.slice(done))).toBe(html(text));
  });

  it("holds a fence together until it is closed", () => {
    const open = "```\nfirst\n\nsecond\n\nthird\n";
    expect(finishedEnd(open, 0)).toBe(0);
    expect(finishedEnd(`${open}\`\`\`\n\nafter\n`, 0)).toBeGreaterThan(open.length);
  });
});

/** Mathematics that begins and never ends. */
import MarkdownIt from "markdown-it";
import { expect, it } from "vitest";

import { withMath } from "../src/model/math";

const markdown = new MarkdownIt({ html: false });
withMath(markdown);

it.each(["\\(", "\\[", "- $$a\n", "1. \\[a\n", "\\(a $b \\[ "])(
  "%j, again and again, costs no more than its length",
  (piece) => {
    const began = performance.now();
    markdown.render(piece.repeat(Math.ceil(120_000 / piece.length)));
    expect(performance.now() - began).toBeLessThan(4_000); // ten times as much, and more, where each looks for its own end
  },
);

it("does not go on from one item of a list to the next", () => {
  const list = markdown.render("- $$a\n- b$$\n");
  expect(list.match(/<li>/g)).toHaveLength(2);
  expect(markdown.render("- $$a\n  b$$\n")).toContain('<code class="math-display">a\nb</code>');
});

it("finds a formula behind a beginning without an end", () => {
  expect(markdown.render("\\(a and $b$ and \\[c")).toContain('<code class="math-inline">b</code>');
  expect(markdown.render("[\\(a\\) and \\(b")).toContain('<code class="math-inline">a</code>'); // a link that is none
  expect(markdown.render("*\\(a* and \\(b\\)")).toContain('<code class="math-inline">a* and \\(b</code>');
});

/** No call looks like another one. */
import { expect, it } from "vitest";

import { visible } from "../src/model/visible";

it("writes out what would hide a part of a call, or turn it round", () => {
  expect(visible("rm \u202e fdp.exe")).toBe("rm \\u{202e} fdp.exe");
  expect(visible("a\u200bb\u0000\u001b[2K\u2066x\u2069")).toBe("a\\u{200b}b\\u{0}\\u{1b}[2K\\u{2066}x\\u{2069}");
  expect(visible("\u{e0041}\u{e0042}")).toBe("\\u{e0041}\\u{e0042}");
});

it("leaves every language and its signs alone", () => {
  const text = 'print("שלום") \n\t漢字 می‌خواهم 👩‍👩‍👧 é {"a": 1}';
  expect(visible(text)).toBe(text);
});

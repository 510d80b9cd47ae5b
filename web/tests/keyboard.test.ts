import { describe, expect, it } from "vitest";

import { KEYS, nameOf } from "../src/keyboard";
import { en } from "../src/i18n/en";

const press = (key: string, more: KeyboardEventInit = {}) => new KeyboardEvent("keydown", { key, ...more });

describe("keys", () => {
  it("are named with Ctrl or Command", () => {
    expect(nameOf(press("k", { ctrlKey: true }))).toBe("mod+k");
    expect(nameOf(press("K", { metaKey: true, shiftKey: true }))).toBe("mod+k");
    expect(nameOf(press("?", { shiftKey: true }))).toBe("?");
    expect(nameOf(press("F6"))).toBe("F6");
  });

  it("are no commands while a candidate is chosen, or with Alt", () => {
    expect(nameOf(press("j", { isComposing: true }))).toBeUndefined();
    expect(nameOf(press("j", { keyCode: 229 }))).toBeUndefined();
    expect(nameOf(press("j", { altKey: true }))).toBeUndefined();
  });

  it("all stand in the list with words", () => {
    for (const [, name] of KEYS) expect(en.keys[name]).toBeTruthy();
  });
});

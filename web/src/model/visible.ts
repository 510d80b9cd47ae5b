/** What calls say, as a person who decides on them must see it. */

/** Controls other than line breaks and tabs, marks that turn the order of letters round, and letters without a shape. */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

/** The text with everything written out that would hide a part of it, or show it in another order. */
export const visible = (text: string): string =>
  text.replace(HIDDEN, (letter) => `\\u{${letter.codePointAt(0)?.toString(16)}}`);

/** Markdown as it comes: finished blocks are rendered once and stay, only the last one is rendered again. */
import { highlightInTime } from "./highlighting";
import { finishedEnds, hasReferences, languageOf, rendered } from "./markdown";
import { DISPLAY, INLINE, typeset } from "./math";

/** Finished blocks are kept together in boxes of about this many characters, which browsers skip when out of sight. */
const GROUP = 4096;
/** Text is drawn this often at most: more often nobody sees, and every time costs style, layout and paint. */
const PACE_MS = 40;
/** Of the time, at most one part in so many goes into drawing, however slow the machine and however long a block. */
const SHARE = 3;
/** A pause in the text is no slow frame. */
const SLOWEST_MS = 250;

/** Draws a text that grows at its end into an element. */
export class StreamedMarkdown {
  private done = "";
  private group: HTMLElement | undefined;
  private groupSize = 0;
  private tail: HTMLElement | undefined;
  private drawnAt = -Infinity;
  /** Milliseconds from the last drawing to the frame after it; undefined until that begins. */
  private cost: number | undefined;

  constructor(
    private readonly root: HTMLElement,
    private readonly copyLabel: string,
  ) {}

  /**
   * Draw a text that will grow, in a frame that began at `now`. False when it is left for a later frame.
   *
   * What the last drawing cost shows in when the next frame begins: style, layout and paint come after the script.
   */
  grow(text: string, now: number): boolean {
    const since = now - this.drawnAt;
    if (this.cost === undefined && since < SLOWEST_MS) this.cost = since;
    if (since < Math.max(PACE_MS, (this.cost ?? 0) * SHARE)) return false;
    if (!this.tail || !text.startsWith(this.done)) this.begin();
    this.finishBlocks(text);
    this.tail?.replaceChildren(rendered(text.slice(this.done.length), this.copyLabel));
    this.drawnAt = now;
    this.cost = undefined;
    return true;
  }

  /** Draw a text that grows no more. What was drawn of it stays, so that nothing jumps. */
  end(text: string): void {
    const whole = hasReferences(text);
    if (!this.tail || whole || !text.startsWith(this.done)) this.begin();
    if (!whole) this.finishBlocks(text);
    this.tail?.replaceChildren();
    if (text.length > this.done.length) this.append(text.slice(this.done.length));
    this.done = text;
  }

  private begin(): void {
    this.root.replaceChildren();
    this.done = "";
    this.group = undefined;
    this.tail = document.createElement("div");
    this.tail.className = "tail";
    this.root.append(this.tail);
  }

  /** Append what is finished, in pieces of about one group. */
  private finishBlocks(text: string): void {
    let from = this.done.length;
    const ends = finishedEnds(text, from);
    ends.forEach((end, n) => {
      if (end - from < GROUP && n < ends.length - 1) return;
      this.append(text.slice(from, end));
      from = end;
    });
    this.done = text.slice(0, from);
  }

  private append(text: string): void {
    if (!this.group || this.groupSize > GROUP) {
      this.group = document.createElement("div");
      this.group.className = "group";
      this.groupSize = 0;
      this.tail?.before(this.group);
    }
    const fragment = rendered(text, this.copyLabel);
    const blocks = [...fragment.querySelectorAll("pre > code")];
    const math = [...fragment.querySelectorAll(`code.${INLINE}, code.${DISPLAY}`)];
    this.group.append(fragment);
    this.groupSize += text.length;
    for (const block of blocks) if (languageOf(block)) highlightInTime(block, languageOf(block));
    void typeset(math);
  }
}

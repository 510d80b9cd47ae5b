import {
  type AssistantStreamDelta,
  type AssistantStreamStart,
  StreamChannel,
  type ToolResultStreamed,
} from "./gen/netaclaw/chat/v1/event_pb.js";

/** Of a running tool's output the last this many UTF-16 units are kept. */
export const MAX_OUTPUT = 64 * 1024;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Text and how many bytes of UTF-8 it is. Never changed; a new one takes its place. */
export interface Stretch {
  readonly text: string;
  readonly bytes: number;
}

export const EMPTY: Stretch = { text: "", bytes: 0 };

/** What one attempt has written so far. Never changed; a new one takes its place. */
export interface Draft {
  readonly attempt: number;
  readonly model: string;
  /** The answer so far. */
  readonly text: string;
  /** The reasoning so far. */
  readonly thinking: string;
  /** The same with their lengths. */
  readonly channels: { readonly text: Stretch; readonly thinking: Stretch };
}

/** A start carries the text so far and replaces everything. */
export function startedDraft(event: AssistantStreamStart): Draft {
  return draft(event.attempt, event.model, stretch(event.text), stretch(event.thinking));
}

/**
 * A draft with a delta taken in where its offset says; the same one when the delta adds nothing.
 *
 * What is known already is ignored, and so are deltas of another attempt and those that would leave a hole: the next
 * start, or the final entry, brings the whole.
 */
export function withDelta(known: Draft, delta: AssistantStreamDelta): Draft {
  if (delta.attempt !== known.attempt) return known;
  const thinking = delta.channel === StreamChannel.THINKING;
  const before = thinking ? known.channels.thinking : known.channels.text;
  const after = spliced(before, Number(delta.offset), delta.text);
  if (after === before) return known;
  return thinking
    ? draft(known.attempt, known.model, known.channels.text, after)
    : draft(known.attempt, known.model, after, known.channels.thinking);
}

/** The last stretch of a running tool's output. Never changed; a new one takes its place. */
export interface ToolOutput {
  /** Bytes of output that have arrived, kept or not. */
  readonly end: number;
  readonly text: string;
}

/** Output with a stretch taken in; what is known is ignored, and after a hole only what follows it is kept. */
export function withOutput(known: ToolOutput | undefined, event: ToolResultStreamed): ToolOutput {
  const { end, text } = known ?? { end: 0, text: "" };
  const offset = Number(event.offset);
  const hole = offset > end;
  const from: Stretch = hole ? { text: "", bytes: offset } : { text, bytes: end };
  const after = spliced(from, offset, event.text);
  return { end: after.bytes, text: after.text.slice(-MAX_OUTPUT) };
}

function draft(attempt: number, model: string, text: Stretch, thinking: Stretch): Draft {
  return { attempt, model, text: text.text, thinking: thinking.text, channels: { text, thinking } };
}

function stretch(text: string): Stretch {
  return text ? { text, bytes: encoder.encode(text).length } : EMPTY;
}

function spliced(known: Stretch, offset: number, added: string): Stretch {
  if (offset > known.bytes) return known;
  const bytes = encoder.encode(added);
  const fresh = bytes.length - (known.bytes - offset);
  if (fresh <= 0) return known;
  const text = fresh === bytes.length ? added : decoder.decode(bytes.subarray(bytes.length - fresh));
  return { text: known.text + text, bytes: known.bytes + fresh };
}

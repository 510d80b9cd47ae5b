const PREFIX = 5;
const TRAILER = 0x80;
const MESSAGE = "grpc-message";

/**
 * A fetch whose gRPC-Web answers are mended where some proxies get them wrong, before a stricter reader sees them:
 * a status in the headers beside an empty trailer frame, and words with a "%" that begins no escape.
 */
export const lenientFetch: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  if (!response.headers.get("content-type")?.startsWith("application/grpc-web")) return response;
  const headers = new Headers(response.headers);
  const words = headers.get(MESSAGE);
  if (words !== null) headers.set(MESSAGE, decodable(words));
  const { status, statusText } = response;
  // A status in the headers is the whole answer: what follows could only hide it.
  if ((headers.get("grpc-status") ?? "0") !== "0") {
    await response.body?.cancel();
    return new Response(new Uint8Array(), { status, statusText, headers });
  }
  return new Response(response.body?.pipeThrough(mendedTrailers()) ?? null, { status, statusText, headers });
};

/** Words that decodeURIComponent accepts: what is no escape is escaped. */
function decodable(words: string): string {
  const escaped = words.replace(/%(?![0-9a-fA-F]{2})/g, "%25");
  return [words, escaped].find(decodes) ?? words.replaceAll("%", "%25"); // escapes of bytes that are no UTF-8
}

function decodes(words: string): boolean {
  try {
    return decodeURIComponent(words).length >= 0; // used, since bundlers drop a call whose value is not
  } catch {
    return false;
  }
}

/** Messages pass through as they come; the trailer is held until it is whole, and mended. */
function mendedTrailers(): TransformStream<Uint8Array, Uint8Array> {
  let left = 0; // of the message that is passing through
  let held: Uint8Array = new Uint8Array(); // the beginning of a frame, or of a trailer
  return new TransformStream({
    transform(chunk, controller) {
      let rest = held.length ? joined(held, chunk) : chunk;
      held = new Uint8Array();
      let through = 0;
      while (through < rest.length) {
        if (left) {
          const taken = Math.min(left, rest.length - through);
          left -= taken;
          through += taken;
        } else if (rest.length - through < PREFIX || isTrailer(rest, through)) {
          break;
        } else {
          left = lengthAt(rest, through) + PREFIX;
        }
      }
      if (through) controller.enqueue(rest.subarray(0, through));
      rest = rest.slice(through);
      if (rest.length < PREFIX || rest.length < PREFIX + lengthAt(rest, 0)) held = rest;
      else controller.enqueue(mended(rest));
    },
    flush(controller) {
      if (held.length) controller.enqueue(held); // broken off: the reader is to see that
    },
  });
}

function isTrailer(bytes: Uint8Array, at: number): boolean {
  return ((bytes[at] ?? 0) & TRAILER) !== 0;
}

function lengthAt(bytes: Uint8Array, at: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset + at).getUint32(1);
}

function mended(frame: Uint8Array): Uint8Array<ArrayBuffer> {
  const lines = new TextDecoder().decode(frame.subarray(PREFIX)).split("\r\n");
  const block = new TextEncoder().encode(lines.map(mendedLine).join("\r\n"));
  const prefix = new Uint8Array(PREFIX);
  prefix[0] = frame[0] ?? TRAILER;
  new DataView(prefix.buffer).setUint32(1, block.length);
  return joined(prefix, block);
}

function mendedLine(line: string): string {
  const value = line.indexOf(":") + 1;
  if (line.slice(0, value).trim().toLowerCase() !== `${MESSAGE}:`) return line;
  return line.slice(0, value) + decodable(line.slice(value));
}

function joined(one: Uint8Array, other: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

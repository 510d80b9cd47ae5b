/** Texts that are too long for their place are stored whole, and read in pieces. */
import type { Client } from "@netaclaw/client";

const PIECE = 512 * 1024;

/** The whole of a stored text. Throws ConnectError. */
export async function readContent(client: Client, sessionId: string, contentId: string): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let offset = 0n; ;) {
    const { chunk } = await client.sessions.readContent({ sessionId, contentId, offset, limitBytes: PIECE });
    if (!chunk?.data.length) return text;
    text += decoder.decode(chunk.data, { stream: true });
    offset += BigInt(chunk.data.length);
    if (offset >= chunk.sizeBytes) return text;
  }
}

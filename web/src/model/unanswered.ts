/** A message that failed may have arrived all the same: asked again it keeps its request id, so that it begins one turn. */
import type { Place } from "./transcript";

export class Unanswered {
  private asked = "";
  private text = "";
  private requestId = "";

  /** The request id for a message: that of its failed first try, else a new one. */
  idOf(sessionId: string, text: string, place: Place): string {
    return this.requestId && this.asked === nameOf(sessionId, text, place) ? this.requestId : crypto.randomUUID();
  }

  failed(requestId: string, sessionId: string, text: string, place: Place): void {
    this.requestId = requestId;
    this.asked = nameOf(sessionId, text, place);
    this.text = text;
  }

  /** The session shows these words, or a receipt of this request: to say them again is to ask again. */
  arrived(heard: { readonly text?: string; readonly requestId?: string }): void {
    if (heard.text === this.text || heard.requestId === this.requestId) this.requestId = "";
  }
}

function nameOf(sessionId: string, text: string, { leafEntryId = "", fromRoot = false }: Place): string {
  return JSON.stringify([sessionId, text, leafEntryId, fromRoot]);
}

/** The bare page: the same events over the same client, their text in paragraphs, and nothing else. */
import { connectBrowser, SessionStore, WatchFeed } from "../../clients/typescript/src/index.js";

const query = new URLSearchParams(location.search);
const client = connectBrowser({ baseUrl: query.get("suite") ?? "" });
const sessionId = query.get("session") ?? "";
const store = new SessionStore({ client, feed: new WatchFeed(client), sessionId });
let paragraph = document.createElement("p");
document.body.append(paragraph);

function show(text: string): void {
  const [first = "", ...rest] = text.split("\n\n");
  paragraph.append(first);
  for (const next of rest) {
    paragraph = document.createElement("p");
    paragraph.append(next);
    document.body.append(paragraph);
  }
  scrollTo(0, document.body.scrollHeight);
}

store.subscribe((change) => {
  if (change.kind !== "event") return;
  const { event } = change.event;
  if (event.case === "assistantStreamStart") show(event.value.text);
  if (event.case === "assistantStreamDelta") show(event.value.text);
  if (event.case === "done" || event.case === "error") document.body.dataset.end = event.case;
});
void store.open().then(() => (document.body.dataset.status = store.status));

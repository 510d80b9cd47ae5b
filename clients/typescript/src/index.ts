/** The client's side of netaclaw's contract: stubs, a view of a session, and streams that survive cuts. */
export { Backoff, type BackoffOptions } from "./backoff.js";
export { connectBrowser } from "./browser.js";
export { type Client, clientOn, type ConnectOptions, loadSession } from "./client.js";
export { differences } from "./comparison.js";
export { type Draft, MAX_OUTPUT, type ToolOutput } from "./drafts.js";
export { Gap, isCut, reasonMetadata, reasonOf, retryAfterMs } from "./errors.js";
export { type Feed, FeedError, type FeedListener, type SessionListListener, WatchFeed } from "./feed.js";
export { type ChatRequestInit, follow, type FollowOptions, runTurn, type StartedTurn, startTurn } from "./follow.js";
export { SessionStore, type SessionStatus, type SessionStoreOptions, type StoreChange } from "./session-store.js";
export { sharedFeed, type SharedFeedOptions } from "./shared/index.js";
export { draftKey, isAttachment, MAX_BATCH_EVENTS, SessionView, type ViewContainers } from "./view.js";

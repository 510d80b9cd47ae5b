import type { Session } from "@netaclaw/client/gen/netaclaw/session/v1/entry_pb";
import type { ListSessionsResponse } from "@netaclaw/client/gen/netaclaw/session/v1/session_service_pb";
import { defineStore } from "pinia";
import { computed, ref, shallowRef } from "vue";

import { client, feed } from "../connection";
import { millis } from "../model/figures";
import { useNotices } from "./notices";

const SEARCH_AFTER_MS = 200;

/** The caller's sessions, last changed first, kept current by the feed. */
export const useSessions = defineStore("sessions", () => {
  const notices = useNotices();
  const known = shallowRef<ReadonlyMap<string, Session>>(new Map());
  const query = ref("");
  const loaded = ref(false);
  const nextPage = ref("");
  let asked = 0;
  let shownFor = "";
  let timer: ReturnType<typeof setTimeout> | undefined;
  let following = false;

  const list = computed(() =>
    [...known.value.values()].sort((a, b) => (millis(b.updateTime) ?? 0) - (millis(a.updateTime) ?? 0)),
  );

  /** What is known of later pages than this first one. */
  function beyond(page: ListSessionsResponse): Session[] {
    const last = millis(page.sessions.at(-1)?.updateTime) ?? 0;
    if (!page.nextPageToken) return [];
    return [...known.value.values()].filter((session) => (millis(session.updateTime) ?? 0) < last);
  }

  /** Read the first page, or the next one. */
  function load(more = false): Promise<void> {
    const mine = ++asked;
    const request = { query: query.value.trim(), pageToken: more ? nextPage.value : "" };
    return notices.read(
      async () => {
        const page = await client.sessions.listSessions(request);
        if (mine !== asked) return; // another question was asked meanwhile
        const kept = more ? [...known.value.values()] : shownFor === request.query ? beyond(page) : [];
        known.value = new Map([...kept, ...page.sessions].map((session) => [session.sessionId, session]));
        if (more || !kept.length) nextPage.value = page.nextPageToken;
        shownFor = request.query;
        loaded.value = true;
      },
      () => mine === asked,
    );
  }

  /** Changes are told of live; what happened before they were listened for is read, whenever the stream is made again. */
  function follow(): void {
    if (following) return;
    following = true;
    feed.onSessionList({
      listening: () => void load(),
      event({ event }) {
        if (event.case !== "sessionListChanged" || !event.value.session) return;
        const { session, deleted } = event.value;
        const changed = new Map(known.value);
        if (deleted) changed.delete(session.sessionId);
        else if (!query.value.trim() || changed.has(session.sessionId)) changed.set(session.sessionId, session);
        known.value = changed;
      },
    });
  }

  function search(text: string): void {
    query.value = text;
    clearTimeout(timer);
    timer = setTimeout(() => void load(), SEARCH_AFTER_MS);
  }

  function put(session: Session | undefined): void {
    if (session) known.value = new Map(known.value).set(session.sessionId, session);
  }

  async function make(agentId = "", workspace = ""): Promise<string> {
    const { session } = await client.commands.createSession({ agentId, workspace });
    put(session);
    return session?.sessionId ?? "";
  }

  function rename(session: Session, title: string): Promise<boolean> {
    const { sessionId } = session;
    return notices.attempt(async () => {
      const changed = { session: { sessionId, title }, updateMask: { paths: ["title"] } };
      put((await client.commands.updateSession(changed)).session);
    });
  }

  function remove(sessionId: string): Promise<boolean> {
    return notices.attempt(async () => {
      await client.commands.deleteSession({ sessionId });
      const rest = new Map(known.value);
      rest.delete(sessionId);
      known.value = rest;
    });
  }

  return { list, query, loaded, nextPage, load, follow, search, make, rename, remove };
});

package netaclaw.client;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import netaclaw.chat.v1.Event.AssistantStreamDelta;
import netaclaw.chat.v1.Event.ChatEvent;
import netaclaw.chat.v1.Event.StreamChannel;
import netaclaw.session.v1.EntryOuterClass.Entry;
import netaclaw.session.v1.EntryOuterClass.EntryState;
import netaclaw.session.v1.EntryOuterClass.Part;
import netaclaw.session.v1.SessionServiceOuterClass.GetSessionTreeResponse;
import netaclaw.session.v1.Subagent.SubagentTask;

/** One session as a client sees it: entries with their text, what is being written, subagents. For one thread at a time. */
public final class View {
  private String sessionId = "";
  private String leafEntryId = "";
  private long seq;
  private ChatEvent turnEnd;
  private final Map<String, Entry> entries = new LinkedHashMap<>();
  private final Map<String, SubagentTask> tasks = new LinkedHashMap<>();
  private final Map<String, Draft> drafts = new HashMap<>();

  public String sessionId() {
    return sessionId;
  }

  public String leafEntryId() {
    return leafEntryId;
  }

  /** Of the last durable event that is included. */
  public long seq() {
    return seq;
  }

  /** The last done or error event; null before one. */
  public ChatEvent turnEnd() {
    return turnEnd;
  }

  /** By id, in the order in which they came. */
  public Map<String, Entry> entries() {
    return entries;
  }

  /** Subagents by task id, as their last event carried them. */
  public Map<String, SubagentTask> tasks() {
    return tasks;
  }

  void add(GetSessionTreeResponse page) {
    if (sessionId.isEmpty()) {
      sessionId = page.getSession().getSessionId();
      seq = page.getSession().getSeq();
      leafEntryId = page.getSession().getLeafEntryId();
    }
    for (Entry entry : page.getEntriesList()) entries.put(entry.getEntryId(), entry);
  }

  /**
   * Takes one event; true when it was new. Durable events at or before seq are ignored; one that leaves a hole throws Gap
   * and changes nothing.
   */
  public boolean apply(ChatEvent event) {
    if (event.getSeq() != 0) {
      if (event.getSeq() <= seq) return false;
      if (event.getSeq() != seq + 1) throw new Gap(seq, event.getSeq());
      seq = event.getSeq();
    }
    if (sessionId.isEmpty()) sessionId = event.getSessionId();
    change(event);
    return true;
  }

  private void change(ChatEvent event) {
    switch (event.getEventCase()) {
      case SESSION_ENTRY_ADDED -> put(event, event.getSessionEntryAdded().getEntry());
      case SESSION_ENTRY_UPDATED -> put(event, event.getSessionEntryUpdated().getEntry());
      case SESSION_ENTRY_REMOVED -> {
        entries.remove(event.getSessionEntryRemoved().getEntryId());
        drafts.remove(event.getSessionEntryRemoved().getEntryId());
      }
      case SESSION_LEAF_CHANGED -> leafEntryId = event.getSessionLeafChanged().getLeafEntryId();
      case SUBAGENT_EVENT -> tasks.put(event.getSubagentEvent().getItem().getTaskId(), event.getSubagentEvent().getItem());
      case ASSISTANT_STREAM_START -> {
        if (event.getTaskId().isEmpty()) {
          drafts.put(
              event.getEntryId(),
              new Draft(event.getAssistantStreamStart().getAttempt(), event.getAssistantStreamStart().getText()));
        }
      }
      case ASSISTANT_STREAM_DELTA -> {
        Draft draft = event.getTaskId().isEmpty() ? drafts.get(event.getEntryId()) : null;
        if (draft != null) draft.add(event.getAssistantStreamDelta());
      }
      case DONE, ERROR -> {
        turnEnd = event;
        drafts.clear();
      }
      default -> {} // kinds that this view does not show, and those of a later version
    }
  }

  /** Replaces an entry, unless what is here is newer. */
  private void put(ChatEvent event, Entry entry) {
    Entry known = entries.get(entry.getEntryId());
    if (known != null && known.getUpdatedSeq() > Math.max(entry.getUpdatedSeq(), event.getSeq())) return;
    entries.put(entry.getEntryId(), entry);
    if (entry.getState() != EntryState.ENTRY_STATE_STREAMING) drafts.remove(entry.getEntryId());
  }

  /** An assistant entry's text as it stands: what is being written, else the stored parts. */
  public String textOf(String entryId) {
    Draft draft = drafts.get(entryId);
    if (draft != null) return draft.text.toString();
    StringBuilder text = new StringBuilder();
    Entry entry = entries.get(entryId);
    if (entry != null) {
      for (Part part : entry.getAssistant().getPartsList()) text.append(part.getText().getText());
    }
    return text.toString();
  }

  /** The entries from the root to the leaf. */
  public List<Entry> path() {
    Deque<Entry> path = new ArrayDeque<>();
    for (Entry entry = entries.get(leafEntryId); entry != null; entry = entries.get(entry.getParentEntryId())) {
      path.addFirst(entry);
    }
    return new ArrayList<>(path);
  }

  /** Text that grows by deltas, whose offsets count bytes of UTF-8. */
  private static final class Draft {
    private final int attempt;
    private final StringBuilder text;
    private long bytes;

    Draft(int attempt, String text) {
      this.attempt = attempt;
      this.text = new StringBuilder(text);
      this.bytes = text.getBytes(StandardCharsets.UTF_8).length;
    }

    /** What is known is ignored, and so are deltas of another attempt and those that would leave a hole. */
    void add(AssistantStreamDelta delta) {
      if (delta.getAttempt() != attempt || delta.getChannel() != StreamChannel.STREAM_CHANNEL_TEXT) return;
      byte[] added = delta.getText().getBytes(StandardCharsets.UTF_8);
      long known = bytes - delta.getOffset();
      if (known < 0 || known >= added.length) return;
      text.append(new String(added, (int) known, added.length - (int) known, StandardCharsets.UTF_8));
      bytes += added.length - known;
    }
  }
}

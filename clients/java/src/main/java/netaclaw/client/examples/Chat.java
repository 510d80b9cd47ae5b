package netaclaw.client.examples;

import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import com.google.protobuf.util.JsonFormat;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import netaclaw.chat.v1.ChatServiceOuterClass.ChatRequest;
import netaclaw.chat.v1.Event.ChatEvent;
import netaclaw.client.Client;
import netaclaw.client.View;
import netaclaw.session.v1.EntryOuterClass.Entry;
import netaclaw.session.v1.Subagent.SubagentTask;

/**
 * A chat in a terminal: sends one message, prints the answer live, and survives a cut connection.
 *
 * <p>Arguments: [--session ID] [--json] HOST:PORT MESSAGE. --json prints a report as the last line. NETACLAW_API_KEY is
 * shown where the gateway asks for one.
 */
public final class Chat {
  /** How much of each answer, and what of each subagent, is on the screen. */
  private final Map<String, String> shown = new HashMap<>();

  private final View view;

  private Chat(View view) {
    this.view = view;
  }

  public static void main(String[] arguments) throws Exception {
    List<String> words = new ArrayList<>(List.of(arguments));
    boolean json = words.remove("--json");
    int option = words.indexOf("--session");
    String session = option < 0 ? "" : words.remove(option + 1);
    words.remove("--session");
    if (words.size() < 2) {
      System.err.println("usage: chat [--session ID] [--json] HOST:PORT MESSAGE");
      System.exit(2);
    }
    View view;
    try (Client client = Client.connect(words.get(0), System.getenv("NETACLAW_API_KEY"))) {
      view = session.isEmpty() ? new View() : client.load(session);
      String message = String.join(" ", words.subList(1, words.size()));
      ChatRequest request = ChatRequest.newBuilder().setSessionId(session).setContent(message).build();
      client.runTurn(request, view.seq(), new Chat(view)::take);
    }
    System.out.println();
    if (json) System.out.println(report(view));
    System.exit(view.turnEnd() != null && view.turnEnd().hasDone() ? 0 : 1);
  }

  private void take(ChatEvent event) {
    view.apply(event);
    for (Entry entry : view.path()) {
      if (!entry.getTurnId().equals(event.getTurnId()) || !entry.hasAssistant()) continue;
      String before = shown.getOrDefault(entry.getEntryId(), "");
      String text = view.textOf(entry.getEntryId());
      // Another attempt has begun where the text does not go on from what is shown.
      System.out.print(text.startsWith(before) ? text.substring(before.length()) : "\n" + text);
      shown.put(entry.getEntryId(), text);
    }
    System.out.flush();
    SubagentTask task = event.getSubagentEvent().getItem();
    if (event.hasSubagentEvent() && !task.getState().name().equals(shown.put(task.getTaskId(), task.getState().name()))) {
      System.err.println("  [" + task.getName() + ": " + task.getState() + "]");
    }
  }

  private static String report(View view) throws Exception {
    Struct fields =
        Struct.newBuilder()
            .putFields("session_id", Value.newBuilder().setStringValue(view.sessionId()).build())
            .putFields("seq", Value.newBuilder().setNumberValue(view.seq()).build())
            .putFields("text", Value.newBuilder().setStringValue(view.textOf(view.leafEntryId())).build())
            .putFields("outcome", Value.newBuilder().setNumberValue(view.turnEnd().getDone().getOutcomeValue()).build())
            .build();
    return JsonFormat.printer().omittingInsignificantWhitespace().print(fields);
  }
}

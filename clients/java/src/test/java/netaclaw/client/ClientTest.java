package netaclaw.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Message;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import com.google.protobuf.util.JsonFormat;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.LongStream;
import netaclaw.chat.v1.ChatServiceGrpc;
import netaclaw.chat.v1.ChatServiceOuterClass.ChatRequest;
import netaclaw.chat.v1.ChatServiceOuterClass.ChatResponse;
import netaclaw.chat.v1.ChatServiceOuterClass.WatchRequest;
import netaclaw.chat.v1.ChatServiceOuterClass.WatchResponse;
import netaclaw.chat.v1.Event.ChatEvent;
import netaclaw.chat.v1.Event.Done;
import netaclaw.chat.v1.Event.MessageReceipt;
import netaclaw.chat.v1.Event.ReceiptState;
import netaclaw.chat.v1.Event.SessionEntryAdded;
import netaclaw.session.v1.EntryOuterClass.Entry;
import netaclaw.session.v1.EntryOuterClass.EntryKind;
import netaclaw.session.v1.SessionServiceOuterClass.GetSessionTreeResponse;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** With a real delegated turn, as it was recorded: its events as they came, and the tree afterwards. */
class ClientTest {
  private static final Struct RECORDED = recorded();
  private static final List<ChatEvent> EVENTS = events();

  private static Struct recorded() {
    try {
      Struct.Builder file = Struct.newBuilder();
      JsonFormat.parser().merge(Files.readString(Path.of("../../tests/cases/recorded-turn.json")), file);
      return file.build();
    } catch (java.io.IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private static List<ChatEvent> events() {
    List<ChatEvent> found = new ArrayList<>();
    for (Value event : RECORDED.getFieldsOrThrow("events").getListValue().getValuesList()) {
      found.add(read(event, ChatEvent.newBuilder()).build());
    }
    return found;
  }

  private static <B extends Message.Builder> B read(Value value, B into) {
    try {
      JsonFormat.parser().merge(JsonFormat.printer().print(value), into);
      return into;
    } catch (com.google.protobuf.InvalidProtocolBufferException error) {
      throw new IllegalStateException(error);
    }
  }

  private static View stored() {
    View view = new View();
    view.add(read(RECORDED.getFieldsOrThrow("tree"), GetSessionTreeResponse.newBuilder()).build());
    return view;
  }

  private static void assertSame(View wanted, View got) {
    assertEquals(wanted.seq(), got.seq());
    assertEquals(wanted.leafEntryId(), got.leafEntryId());
    assertEquals(wanted.entries().keySet(), got.entries().keySet());
    for (Entry entry : wanted.path()) {
      assertEquals(wanted.textOf(entry.getEntryId()), got.textOf(entry.getEntryId()));
      assertEquals(entry.getState(), got.entries().get(entry.getEntryId()).getState());
    }
  }

  @Test
  void aViewOfAllEventsIsTheStoredOneAfterAnyCutsAndReplays() {
    for (int seed = 0; seed < 50; seed++) {
      Random random = new Random(seed);
      View view = new View();
      for (int at = 0; at < EVENTS.size(); at++) {
        view.apply(EVENTS.get(at));
        if (random.nextDouble() < 0.2) at = Math.max(-1, at - random.nextInt(10));
      }
      assertSame(stored(), view);
    }
  }

  @Test
  void anEventThatLeavesAHoleIsAGapAndChangesNothing() {
    View view = new View();
    ChatEvent second = EVENTS.stream().filter(event -> event.getSeq() == 2).findFirst().orElseThrow();
    assertThrows(Gap.class, () -> view.apply(second));
    assertEquals(0, view.seq());
  }

  @Test
  void textIsShownWhileItIsWritten() {
    View view = new View();
    Set<String> seen = new HashSet<>();
    for (ChatEvent event : EVENTS) {
      view.apply(event);
      seen.add(view.textOf(view.leafEntryId()));
    }
    assertTrue(seen.size() >= 5);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 3, 10, 50})
  void aTurnThatIsCutAgainAndAgainEndsAsItIsStored(int each) throws Exception {
    Cutting service = new Cutting(each);
    Server server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0)).addService(service).build().start();
    View view = new View();
    try (Client client = Client.connect("127.0.0.1:" + server.getPort(), null)) {
      client.runTurn(ChatRequest.newBuilder().setContent("count").build(), 0, view::apply);
    } finally {
      server.shutdownNow();
    }
    assertSame(stored(), view);
    assertFalse(service.asked.get(0).isEmpty());
    assertEquals(1, new HashSet<>(service.asked).size());
    assertTrue(service.asked.size() > 1);
  }

  /** A message waits for another's turn, and for that of a message before it. */
  private static final List<ChatEvent> WAITED =
      numbered(
          asked("theirs"),
          receipt("theirs", "before", ReceiptState.RECEIPT_STATE_QUEUED),
          receipt("theirs", "mine", ReceiptState.RECEIPT_STATE_QUEUED),
          done("theirs"),
          receipt("third", "before", ReceiptState.RECEIPT_STATE_TAKEN),
          asked("third"),
          done("third"),
          receipt("own", "mine", ReceiptState.RECEIPT_STATE_TAKEN),
          asked("own"),
          done("own"),
          asked("later"));

  private static final List<ChatEvent> RETRACTED =
      numbered(
          asked("theirs"),
          receipt("theirs", "mine", ReceiptState.RECEIPT_STATE_QUEUED),
          receipt("theirs", "mine", ReceiptState.RECEIPT_STATE_RETRACTED),
          done("theirs"));

  private static ChatEvent.Builder asked(String turnId) {
    Entry entry = Entry.newBuilder().setKind(EntryKind.ENTRY_KIND_USER).build();
    return ChatEvent.newBuilder().setTurnId(turnId).setSessionEntryAdded(SessionEntryAdded.newBuilder().setEntry(entry));
  }

  private static ChatEvent.Builder receipt(String turnId, String requestId, ReceiptState state) {
    MessageReceipt.Builder told = MessageReceipt.newBuilder().setRequestId(requestId).setState(state);
    return ChatEvent.newBuilder().setTurnId(turnId).setMessageReceipt(told);
  }

  private static ChatEvent.Builder done(String turnId) {
    return ChatEvent.newBuilder().setTurnId(turnId).setDone(Done.getDefaultInstance());
  }

  /** A session's events with their seqs, from 1. */
  private static List<ChatEvent> numbered(ChatEvent.Builder... events) {
    List<ChatEvent> numbered = new ArrayList<>();
    for (ChatEvent.Builder event : events) {
      numbered.add(event.setSessionId("s").setSeq(numbered.size() + 1).build());
    }
    return numbered;
  }

  /** Seqs that runTurn gives for the message of a session; each Chat is answered by the next of some streams. */
  private static List<Long> waitedFor(long after, List<ChatEvent> session, List<List<ChatEvent>> chats) throws Exception {
    Scripted service = new Scripted(session, chats);
    Server server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0)).addService(service).build().start();
    List<Long> seqs = new ArrayList<>();
    ChatRequest request = ChatRequest.newBuilder().setContent("and then").setRequestId("mine").build();
    try (Client client = Client.connect("127.0.0.1:" + server.getPort(), null)) {
      client.runTurn(request, after, event -> seqs.add(event.getSeq()));
    } finally {
      server.shutdownNow();
    }
    assertEquals(Set.of("mine"), new HashSet<>(service.asked));
    return seqs;
  }

  private static List<Long> seqs(long first, long last) {
    return LongStream.rangeClosed(first, last).boxed().toList();
  }

  @Test
  void aMessageThatWaitsIsFollowedToTheEndOfItsOwnTurn() throws Exception {
    assertEquals(seqs(1, 10), waitedFor(0, WAITED, List.of(WAITED.subList(2, 3)))); // its receipt is a gap
    assertEquals(seqs(3, 10), waitedFor(2, WAITED, List.of(WAITED.subList(2, 3)))); // it is cut after its receipt
  }

  @Test
  void aMessageThatIsTakenBackEndsIt() throws Exception {
    assertEquals(seqs(1, 3), waitedFor(0, RETRACTED, List.of(RETRACTED.subList(1, 2))));
  }

  @Test
  void aMessageThatIsSentAgainAfterItWasTakenFindsItsTurn() throws Exception {
    assertEquals(seqs(2, 10), waitedFor(1, WAITED, List.of(List.of(), WAITED.subList(7, 10))));
  }

  @Test
  void aTurnThatWasOverBeforeWhatIsKnownTellsNothing() throws Exception {
    assertEquals(List.of(), waitedFor(10, WAITED, List.of(WAITED.subList(7, 10))));
  }

  @Test
  void aTurnThatBeginsAtOnceIsFollowedWhenItsEntryIsAGap() throws Exception {
    assertEquals(seqs(2, 10), waitedFor(1, WAITED, List.of(WAITED.subList(8, 10))));
  }

  @Test
  void anAnswerIsNoCut() {
    assertTrue(Client.isCut(new StatusRuntimeException(Status.UNAVAILABLE)));
    assertTrue(Client.isCut(new StatusRuntimeException(Status.INTERNAL)));
    assertFalse(Client.isCut(new StatusRuntimeException(Status.NOT_FOUND)));
  }

  /** Answers each Chat with the next of its streams and cuts it then; Watch tells the session as it stands. */
  private static final class Scripted extends ChatServiceGrpc.ChatServiceImplBase {
    final List<String> asked = new ArrayList<>();
    private final List<ChatEvent> session;
    private final List<List<ChatEvent>> chats;

    Scripted(List<ChatEvent> session, List<List<ChatEvent>> chats) {
      this.session = session;
      this.chats = chats;
    }

    @Override
    public void chat(ChatRequest request, StreamObserver<ChatResponse> answer) {
      asked.add(request.getRequestId());
      if (asked.size() > chats.size()) {
        answer.onError(Status.FAILED_PRECONDITION.withDescription("asked too often").asRuntimeException());
        return;
      }
      answer.onNext(ChatResponse.newBuilder().addAllEvents(chats.get(asked.size() - 1)).build());
      answer.onError(Status.UNAVAILABLE.asRuntimeException());
    }

    @Override
    public void watch(WatchRequest request, StreamObserver<WatchResponse> answer) {
      long after = request.getTargets(0).getAfterSeq();
      List<ChatEvent> rest = session.stream().filter(event -> event.getSeq() > after).toList();
      answer.onNext(WatchResponse.newBuilder().addAllEvents(rest).build());
      answer.onError(Status.FAILED_PRECONDITION.withDescription("read past the end").asRuntimeException());
    }
  }

  /** Serves the events after a seq, and cuts each stream after a few. */
  private static final class Cutting extends ChatServiceGrpc.ChatServiceImplBase {
    final List<String> asked = new ArrayList<>();
    private final int each;

    Cutting(int each) {
      this.each = each;
    }

    @Override
    public void chat(ChatRequest request, StreamObserver<ChatResponse> answer) {
      asked.add(request.getRequestId());
      serve(0, asked.size() == 1 ? 0 : each, event -> answer.onNext(ChatResponse.newBuilder().addEvents(event).build()));
      answer.onError(Status.UNAVAILABLE.asRuntimeException());
    }

    @Override
    public void watch(WatchRequest request, StreamObserver<WatchResponse> answer) {
      long after = request.getTargets(0).getAfterSeq();
      serve(after, each, event -> answer.onNext(WatchResponse.newBuilder().addEvents(event).build()));
      answer.onError(Status.UNAVAILABLE.asRuntimeException());
    }

    private void serve(long afterSeq, int most, Consumer<ChatEvent> send) {
      int sent = 0;
      for (ChatEvent event : EVENTS) {
        boolean gone = event.getSeq() == 0 ? afterSeq > 0 && sent == 0 : event.getSeq() <= afterSeq;
        if (gone || sent == most) continue;
        send.accept(event);
        sent++;
      }
    }
  }
}

package netaclaw.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.rpc.RetryInfo;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import netaclaw.chat.v1.ChatServiceGrpc;
import netaclaw.chat.v1.ChatServiceOuterClass.ChatRequest;
import netaclaw.chat.v1.ChatServiceOuterClass.ChatResponse;
import netaclaw.chat.v1.ChatServiceOuterClass.WatchRequest;
import netaclaw.chat.v1.ChatServiceOuterClass.WatchResponse;
import netaclaw.chat.v1.Event.ChatEvent;
import netaclaw.chat.v1.Event.Done;
import netaclaw.chat.v1.Event.SessionEntryAdded;
import netaclaw.session.v1.EntryOuterClass.Entry;
import netaclaw.session.v1.EntryOuterClass.EntryKind;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Suites that ask for patience, and callers that have none left. */
class PatienceTest {
  private static final long DELAY_MS = 300;
  private static final StatusRuntimeException CUT = Status.UNAVAILABLE.asRuntimeException();
  private static final ChatRequest REQUEST = ChatRequest.newBuilder().setSessionId("s").setContent("count").build();

  private final Service service = new Service();
  private Server server;
  private Client client;

  @BeforeEach
  void start() throws Exception {
    server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0)).addService(service).build().start();
    client = Client.connect("127.0.0.1:" + server.getPort(), null);
  }

  @AfterEach
  void stop() {
    client.close();
    server.shutdownNow();
  }

  private static StatusRuntimeException limited() {
    Duration delay = Duration.newBuilder().setNanos((int) DELAY_MS * 1_000_000).build();
    Any retry = Any.pack(RetryInfo.newBuilder().setRetryDelay(delay).build());
    Metadata trailers = new Metadata();
    Metadata.Key<byte[]> key = Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);
    trailers.put(key, com.google.rpc.Status.newBuilder().setCode(8).addDetails(retry).build().toByteArray());
    return Status.RESOURCE_EXHAUSTED.asRuntimeException(trailers);
  }

  private void assertWaited() {
    assertTrue(service.asked.get(2) - service.asked.get(1) >= DELAY_MS * 1_000_000);
  }

  @Test
  void aLimitThatRefusesWhatWasFollowedIsWaitedFor() throws Exception {
    service.ends.addAll(List.of(CUT, limited(), CUT));
    service.silentAt = 2;
    client.follow("s", 0, event -> event.getSeq() < 2);
    assertWaited();
  }

  @Test
  void aLimitThatRefusesATurnThatMayHaveBegunIsWaitedFor() throws Exception {
    service.ends.addAll(List.of(CUT, limited(), CUT));
    client.runTurn(REQUEST, 0, event -> {});
    assertWaited();
  }

  @Test
  void aLimitIsAnAnswerWhereNothingHadBegun() {
    service.ends.addAll(List.of(limited(), limited()));
    service.silentAt = 1;
    assertThrows(StatusRuntimeException.class, () -> client.follow("s", 0, event -> true));
    assertThrows(StatusRuntimeException.class, () -> client.runTurn(REQUEST, 0, event -> {}));
  }

  @Test
  void aCallerThatCancelsIsLetGo() {
    service.ends.add(CUT);
    Context.CancellableContext context = Context.current().withCancellation();
    StatusRuntimeException error =
        assertTimeoutPreemptively(
            java.time.Duration.ofSeconds(10),
            () ->
                context.call(
                    () ->
                        assertThrows(
                            StatusRuntimeException.class,
                            () -> client.follow("s", 0, event -> context.cancel(null) || true))));
    assertEquals(Status.Code.CANCELLED, error.getStatus().getCode());
  }

  @Test
  void aClientThatIsClosedEndsItsStreams() {
    service.ends.add(CUT);
    assertTimeoutPreemptively(
        java.time.Duration.ofSeconds(10),
        () ->
            assertThrows(
                StatusRuntimeException.class,
                () ->
                    client.follow(
                        "s",
                        0,
                        event -> {
                          client.close();
                          return true;
                        })));
  }

  /** Two events and a turn's end, cut as the script says; the last end goes on. */
  private static final class Service extends ChatServiceGrpc.ChatServiceImplBase {
    final List<StatusRuntimeException> ends = new ArrayList<>();
    final List<Long> asked = new ArrayList<>();

    /** The stream of this number, from 1 on, ends without an event. */
    int silentAt;

    @Override
    public void watch(WatchRequest request, StreamObserver<WatchResponse> answer) {
      StatusRuntimeException end = next();
      long seq = request.getTargets(0).getAfterSeq() + 1;
      ChatEvent event = ChatEvent.newBuilder().setSessionId("s").setSeq(seq).build();
      if (asked.size() != silentAt) answer.onNext(WatchResponse.newBuilder().addEvents(event).build());
      answer.onError(end);
    }

    @Override
    public void chat(ChatRequest request, StreamObserver<ChatResponse> answer) {
      StatusRuntimeException end = next();
      if (asked.size() == 3) {
        Entry entry = Entry.newBuilder().setKind(EntryKind.ENTRY_KIND_USER).build();
        ChatEvent.Builder event = ChatEvent.newBuilder().setSessionId("s").setTurnId("t");
        ChatEvent begun = event.setSeq(1).setSessionEntryAdded(SessionEntryAdded.newBuilder().setEntry(entry)).build();
        ChatEvent done = event.setSeq(2).setDone(Done.getDefaultInstance()).build();
        answer.onNext(ChatResponse.newBuilder().addEvents(begun).addEvents(done).build());
      }
      answer.onError(end);
    }

    private StatusRuntimeException next() {
      asked.add(System.nanoTime());
      return ends.get(Math.min(asked.size(), ends.size()) - 1);
    }
  }
}

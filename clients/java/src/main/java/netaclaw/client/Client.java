package netaclaw.client;

import io.grpc.CallCredentials;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.AbstractStub;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.ObjLongConsumer;
import java.util.function.Predicate;
import netaclaw.agent.v1.AgentServiceGrpc;
import netaclaw.chat.v1.ChatServiceGrpc;
import netaclaw.chat.v1.ChatServiceOuterClass.ChatRequest;
import netaclaw.chat.v1.ChatServiceOuterClass.ChatResponse;
import netaclaw.chat.v1.ChatServiceOuterClass.WatchRequest;
import netaclaw.chat.v1.ChatServiceOuterClass.WatchResponse;
import netaclaw.chat.v1.ChatServiceOuterClass.WatchTarget;
import netaclaw.chat.v1.Event.ChatEvent;
import netaclaw.model.v1.ModelServiceGrpc;
import netaclaw.session.v1.SessionCommandServiceGrpc;
import netaclaw.session.v1.SessionServiceGrpc;
import netaclaw.session.v1.SessionServiceOuterClass.GetSessionTreeRequest;
import netaclaw.session.v1.SessionServiceOuterClass.GetSessionTreeResponse;
import netaclaw.tool.v1.ToolServiceGrpc;

/** Stubs of the public services on one connection to a gateway, and streams that survive cuts. Safe for many threads. */
public final class Client implements AutoCloseable {
  private static final int MAX_MESSAGE_BYTES = 4 << 20;
  private static final long SILENCE_S = 45; // three heartbeats: a stream that says nothing for so long is dead

  private final ManagedChannel channel;
  private final CallCredentials credentials;
  private final ScheduledExecutorService clock =
      Executors.newSingleThreadScheduledExecutor(
          work -> {
            Thread thread = new Thread(work, "netaclaw-watchdog");
            thread.setDaemon(true);
            return thread;
          });

  /** A client of the gateway at host:port in plain text; the API key is null on this machine. Connects lazily. */
  public static Client connect(String address, String apiKey) {
    return new Client(NettyChannelBuilder.forTarget("dns:///" + address).usePlaintext(), apiKey);
  }

  /** A client on a channel of your own making, such as one with TLS. */
  public Client(NettyChannelBuilder builder, String apiKey) {
    this.channel =
        builder
            .maxInboundMessageSize(MAX_MESSAGE_BYTES)
            .keepAliveTime(30, TimeUnit.SECONDS)
            .keepAliveTimeout(20, TimeUnit.SECONDS)
            .build();
    this.credentials = apiKey == null || apiKey.isEmpty() ? null : new Bearer(apiKey);
  }

  public ChatServiceGrpc.ChatServiceBlockingStub chat() {
    return shown(ChatServiceGrpc.newBlockingStub(channel));
  }

  public SessionServiceGrpc.SessionServiceBlockingStub sessions() {
    return shown(SessionServiceGrpc.newBlockingStub(channel));
  }

  public SessionCommandServiceGrpc.SessionCommandServiceBlockingStub commands() {
    return shown(SessionCommandServiceGrpc.newBlockingStub(channel));
  }

  public AgentServiceGrpc.AgentServiceBlockingStub agents() {
    return shown(AgentServiceGrpc.newBlockingStub(channel));
  }

  public ToolServiceGrpc.ToolServiceBlockingStub tools() {
    return shown(ToolServiceGrpc.newBlockingStub(channel));
  }

  public ModelServiceGrpc.ModelServiceBlockingStub models() {
    return shown(ModelServiceGrpc.newBlockingStub(channel));
  }

  @Override
  public void close() {
    clock.shutdownNow();
    channel.shutdownNow();
  }

  /** The session as stored: all pages of its tree. */
  public View load(String sessionId) {
    View view = new View();
    String token = "";
    do {
      GetSessionTreeRequest asked = GetSessionTreeRequest.newBuilder().setSessionId(sessionId).setPageToken(token).build();
      GetSessionTreeResponse page = sessions().getSessionTree(asked);
      view.add(page);
      token = page.getNextPageToken();
    } while (!token.isEmpty());
    return view;
  }

  /**
   * Gives a session's events after a seq until the taker answers false: each durable one once, in order.
   *
   * <p>Cuts, silence, slow-reader ends and gaps are followed by another Watch from the last seq, after a pause, and so is
   * a limit that refuses it once something has been followed. Other errors are thrown: OUT_OF_RANGE means that the tree
   * has to be loaded again, CANCELLED that the caller's context was cancelled.
   */
  public void follow(String sessionId, long afterSeq, Predicate<ChatEvent> taker) throws InterruptedException {
    follow(sessionId, new Position(afterSeq, sessionId, (event, last) -> {}), taker);
  }

  private void follow(String sessionId, Position position, Predicate<ChatEvent> taker) throws InterruptedException {
    Pause pause = new Pause();
    while (true) {
      WatchTarget target = WatchTarget.newBuilder().setSessionId(sessionId).setAfterSeq(position.last).build();
      WatchRequest request = WatchRequest.newBuilder().addTargets(target).build();
      Predicate<ChatEvent> noting =
          event -> {
            if (event.getSeq() != 0 || event.hasHeartbeat()) pause.reset();
            return taker.test(event);
          };
      if (pump(stub -> stub.watch(request), WatchResponse::getEventsList, position, pause, noting)) return;
      pause.take();
    }
  }

  /**
   * Sends a message and gives its session's events after a seq, until its turn's done or error, or the receipt that says
   * that it was taken back.
   *
   * <p>Survives cuts: before the first event the same request is sent again under one request id, so that it starts one
   * turn; after it, or once the message is known to wait, the session is followed from the last seq.
   */
  public void runTurn(ChatRequest request, long afterSeq, Consumer<ChatEvent> taker) throws InterruptedException {
    ChatRequest sent =
        request.getRequestId().isEmpty()
            ? request.toBuilder().setRequestId(UUID.randomUUID().toString()).build()
            : request;
    Turn turn = new Turn(sent.getRequestId());
    Position position = new Position(afterSeq, "", turn::note);
    Predicate<ChatEvent> untilItsEnd =
        event -> {
          taker.accept(event);
          return !turn.isEndedBy(event);
        };
    Pause pause = new Pause();
    while (!turn.isAccepted()) {
      boolean taken = pump(stub -> stub.chat(sent), ChatResponse::getEventsList, position, pause, untilItsEnd);
      if (taken || turn.isOver()) return;
      position.begun = true; // the request may have arrived
      pause.take();
    }
    Position rest = new Position(position.last, turn.sessionId, (event, last) -> {});
    rest.begun = true;
    Predicate<ChatEvent> noting =
        event -> {
          turn.note(event, position.last);
          return untilItsEnd.test(event);
        };
    follow(turn.sessionId, rest, noting);
  }

  /** One stream to its end; true when the taker wants no more, false when it is to be opened again. */
  private <T> boolean pump(
      Function<ChatServiceGrpc.ChatServiceBlockingStub, Iterator<T>> open,
      Function<T, List<ChatEvent>> events,
      Position position,
      Pause pause,
      Predicate<ChatEvent> taker) {
    if (channel.isShutdown()) throw Status.CANCELLED.withDescription("the client is closed").asRuntimeException();
    Context.CancellableContext context = Context.current().withCancellation();
    Watchdog watchdog = new Watchdog(context);
    Context before = context.attach();
    try {
      Iterator<T> responses = open.apply(chat());
      while (responses.hasNext()) {
        T response = responses.next();
        watchdog.heard();
        for (ChatEvent event : events.apply(response)) {
          if (position.isNew(event) && !taker.test(event)) return true;
        }
      }
      return false;
    } catch (Gap gap) {
      return false;
    } catch (StatusRuntimeException error) {
      if (before.isCancelled()) throw Contexts.statusFromCancelled(before).asRuntimeException();
      boolean again = isCut(error) || (position.begun && Pause.isLimit(error));
      if (channel.isShutdown() || !again) throw error;
      pause.atLeast(error);
      return false;
    } finally {
      context.detach(before);
      watchdog.stop();
      context.cancel(null);
    }
  }

  /** Whether a stream was cut on its way, or asks to be opened again; other errors are answers. */
  public static boolean isCut(StatusRuntimeException error) {
    Status.Code code = error.getStatus().getCode();
    return switch (code) {
      case UNAVAILABLE, ABORTED, CANCELLED -> true;
      // What a cut can look like behind a proxy; from a service itself these carry details.
      case INTERNAL, UNKNOWN -> error.getTrailers() == null || !error.getTrailers().containsKey(Pause.DETAILS);
      default -> false;
    };
  }

  private <S extends AbstractStub<S>> S shown(S stub) {
    return credentials == null ? stub : stub.withCallCredentials(credentials);
  }

  /** How far a reader has come, in one session or in whichever its stream names. */
  private static final class Position {
    long last;
    boolean begun; // something came, or may have been begun: a limit asks for patience then
    private final String only;
    private final ObjLongConsumer<ChatEvent> note;

    Position(long last, String only, ObjLongConsumer<ChatEvent> note) {
      this.last = last;
      this.only = only;
      this.note = note;
    }

    /** Whether an event is to be taken: live ones always, durable ones in their turn. It is noted in any case. */
    boolean isNew(ChatEvent event) {
      if (!only.isEmpty() && !event.getSessionId().isEmpty() && !event.getSessionId().equals(only)) return false;
      begun = true;
      note.accept(event, last);
      if (event.hasHeartbeat() && event.getHeartbeat().getSeq() > last) throw new Gap(last, event.getHeartbeat().getSeq());
      if (event.getSeq() > last + 1) throw new Gap(last, event.getSeq());
      if (event.getSeq() != 0 && event.getSeq() <= last) return false;
      last = Math.max(last, event.getSeq());
      return true;
    }
  }

  /** Cancels a stream that has been silent for too long. */
  private final class Watchdog {
    private volatile long heardAt = System.nanoTime();
    private final java.util.concurrent.Future<?> looking;

    Watchdog(Context.CancellableContext context) {
      looking =
          clock.scheduleWithFixedDelay(
              () -> {
                if (System.nanoTime() - heardAt > TimeUnit.SECONDS.toNanos(SILENCE_S)) context.cancel(null);
              },
              5,
              5,
              TimeUnit.SECONDS);
    }

    void heard() {
      heardAt = System.nanoTime();
    }

    void stop() {
      looking.cancel(false);
    }
  }

  private static final class Bearer extends CallCredentials {
    private static final Metadata.Key<String> KEY = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    private final String apiKey;

    Bearer(String apiKey) {
      this.apiKey = apiKey;
    }

    @Override
    public void applyRequestMetadata(RequestInfo info, Executor executor, MetadataApplier applier) {
      Metadata headers = new Metadata();
      headers.put(KEY, "Bearer " + apiKey);
      applier.apply(headers);
    }
  }
}

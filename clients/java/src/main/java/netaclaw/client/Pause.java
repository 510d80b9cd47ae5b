package netaclaw.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;

/** Exponential pauses with full jitter, longer where the suite asks for that. */
final class Pause {
  static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);
  private static final long LONGEST_DELAY_MS = 60_000;

  private int tries;
  private long atLeastMs;

  void reset() {
    tries = 0;
  }

  /** The next pause keeps the delay that an error asks for. */
  void atLeast(StatusRuntimeException error) {
    atLeastMs = retryAfterMs(error);
  }

  void take() throws InterruptedException {
    long longest = Math.min(5_000, 100L << Math.min(tries, 16));
    tries++;
    long delay = atLeastMs + (long) (Math.random() * longest);
    atLeastMs = 0;
    Thread.sleep(delay);
  }

  /** Whether a limit refused a call that may be made again after a while. */
  static boolean isLimit(StatusRuntimeException error) {
    return error.getStatus().getCode() == Status.Code.RESOURCE_EXHAUSTED && retryAfterMs(error) > 0;
  }

  /** The delay that the suite asks for before another try; 0 where it asks for none, a minute at most. */
  private static long retryAfterMs(StatusRuntimeException error) {
    byte[] details = error.getTrailers() == null ? null : error.getTrailers().get(DETAILS);
    if (details == null) return 0;
    try {
      for (Any detail : com.google.rpc.Status.parseFrom(details).getDetailsList()) {
        if (!detail.is(RetryInfo.class)) continue;
        var delay = detail.unpack(RetryInfo.class).getRetryDelay();
        return Math.min(LONGEST_DELAY_MS, delay.getSeconds() * 1000 + delay.getNanos() / 1_000_000);
      }
    } catch (InvalidProtocolBufferException unreadable) {
      return 0;
    }
    return 0;
  }
}

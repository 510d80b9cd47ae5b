package netaclaw.client;

/** A durable event came too early: watch again from {@link #last}. */
public final class Gap extends RuntimeException {
  private static final long serialVersionUID = 1;

  public final long last;
  public final long seq;

  public Gap(long last, long seq) {
    super("event " + seq + " does not follow event " + last);
    this.last = last;
    this.seq = seq;
  }
}

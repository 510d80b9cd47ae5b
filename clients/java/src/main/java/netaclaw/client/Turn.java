package netaclaw.client;

import netaclaw.chat.v1.Event.ChatEvent;
import netaclaw.chat.v1.Event.MessageReceipt;
import netaclaw.chat.v1.Event.ReceiptState;
import netaclaw.session.v1.EntryOuterClass.EntryKind;

/** What is known of a message that was sent. */
final class Turn {
  String sessionId = "";
  private final String requestId;
  private String turnId = "";
  private boolean waits; // it is queued: then its receipts say which turn takes it
  private boolean over; // its end was told, and the caller had seen it before

  Turn(String requestId) {
    this.requestId = requestId;
  }

  /**
   * Takes in an event that came to a caller who has seen all up to a seq. A turn is named by its user entry, or by the
   * receipt of a message that waited for it.
   */
  void note(ChatEvent event, long last) {
    if (!event.getSessionId().isEmpty()) sessionId = event.getSessionId();
    MessageReceipt receipt = event.getMessageReceipt();
    if (receipt.getRequestId().equals(requestId)) {
      waits = true;
      if (receipt.getState() == ReceiptState.RECEIPT_STATE_TAKEN) turnId = event.getTurnId();
    } else if (!isAccepted() && event.getSessionEntryAdded().getEntry().getKind() == EntryKind.ENTRY_KIND_USER) {
      turnId = event.getTurnId();
    }
    over |= event.getSeq() <= last && isEndedBy(event);
  }

  /** Whether the message has begun a turn or waits for one: sending it again tells nothing more. */
  boolean isAccepted() {
    return waits || !turnId.isEmpty();
  }

  /** Whether its end was told, and the caller had seen it before. */
  boolean isOver() {
    return over;
  }

  /** Whether the turn ends with the event, or will not begin: the message was taken back. */
  boolean isEndedBy(ChatEvent event) {
    MessageReceipt receipt = event.getMessageReceipt();
    if (receipt.getRequestId().equals(requestId) && receipt.getState() == ReceiptState.RECEIPT_STATE_RETRACTED) {
      return true;
    }
    return (event.hasDone() || event.hasError()) && !turnId.isEmpty() && turnId.equals(event.getTurnId());
  }
}

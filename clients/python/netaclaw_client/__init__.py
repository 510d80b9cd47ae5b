"""The client's side of the contract: stubs, a view of one session, and streams that survive cuts."""

from netaclaw_client.client import Client
from netaclaw_client.comparison import differences, equal
from netaclaw_client.content import read_content
from netaclaw_client.follow import follow, run_turn
from netaclaw_client.retry import Backoff
from netaclaw_client.view import Gap, SessionView

__all__ = ["Backoff", "Client", "Gap", "SessionView", "differences", "equal", "follow", "read_content", "run_turn"]

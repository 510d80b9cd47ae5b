"""Channels between services."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from netaclaw_chassis.server import MAX_MESSAGE_BYTES

OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),  # not below the servers' min_ping_interval, else GOAWAY too_many_pings
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_http_proxy", 0),  # services are addressed directly, whatever the environment says
)


def connect(address: str) -> grpc.aio.Channel:
    """A channel to host:port. Connects lazily and reconnects with backoff; close it when done."""
    return grpc.aio.insecure_channel(address, options=OPTIONS)

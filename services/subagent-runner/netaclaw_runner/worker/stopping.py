"""How a worker is stopped from outside."""

from __future__ import annotations


class Stopped(BaseException):
    """A cancel line or SIGTERM: end now, with the text so far.

    Not an Exception, so that a tool which forgives all errors does not forgive this one.
    """

"""gRPC-Web over HTTP/1.1, binary and text: frames, metadata in headers, and the bridge that speaks both."""

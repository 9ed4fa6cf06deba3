"""An HTTP server in a thread of its own, for services' reports and for the page."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from spojoin.errors import ConfigurationError

#: how long a stop may wait for the server's thread to notice it
POLL_S = 0.1


class ThreadServer:
    """Serves until it is closed; `port` is the port it was given.

    what, advice: parts of the error message where the port can't be used. Raises ConfigurationError.
    """

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler], what: str, advice: str) -> None:
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise ConfigurationError(f"{what} can't be served on {host}:{port} ({error.strerror}): {advice}") from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,), name=what, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

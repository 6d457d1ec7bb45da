"""Access control for the server of ``twofold campaign serve``."""

import hmac
import socket
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.requests import Request

LOCAL = ("127.0.0.1", "localhost", "::1")
REMEDY = "open the address that twofold campaign serve has printed"


class Guard(NamedTuple):
    """Accepts requests from the server's own pages, with its token if it has one. Pages of other
    sites cannot send the server's ``Origin`` or ``Host``, even if their name resolves to this
    machine, because only the machine's own names are accepted."""

    host: str
    port: int
    token: str = ""

    @property
    def url(self) -> str:
        named = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        shown = f"[{named}]" if ":" in named else named
        return f"http://{shown}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    @property
    def cookie(self) -> str:
        """The cookie's name, with the port, because ports share cookies."""
        return f"twofold-{self.port}"

    def refuse_site(self, request: "Request") -> str:
        """Why a request is refused; empty if it comes from the server's own pages."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not self._is_own(host):
            return f"the host name {host!r} is not accepted; {REMEDY}"
        changes = request.method not in ("GET", "HEAD")
        if (changes or origin is not None) and origin not in (f"http://{host}", f"https://{host}"):
            return f"requests from {origin or 'an unknown page'} are refused; {REMEDY}"
        return ""

    def refuse_stranger(self, request: "Request") -> str:
        """Why a request without a valid token is refused; empty if accepted."""
        welcome = not self.token or self.is_token(request.cookies.get(self.cookie, ""))
        return "" if welcome else f"the token is missing or wrong; {REMEDY}"

    def is_token(self, text: str) -> bool:
        """Compare a text with the token in constant time."""
        return bool(self.token) and hmac.compare_digest(text.encode(), self.token.encode())

    def _is_own(self, host: str) -> bool:
        """Whether a ``Host`` is this machine: one of its names or, with a token, any IP address."""
        name, names = "", {self.host.lower(), *LOCAL}
        with suppress(ValueError):
            name = urlsplit(f"//{host}").hostname or ""
            if self.token:
                names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
                names.add(str(ip_address(name)))
        return name in names

"""``twofold campaign serve``: a local web page to live in during a campaign.

Whatever is typed there goes through ``Campaign`` into its database before the answer is sent, so
that browsers and commands work on the same campaign at once, and a kill loses nothing.
"""

import secrets
import socket
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from typer import Argument, Option

from twofold.cli.guard import LOCAL, Guard
from twofold.cli.run import Run
from twofold.cli.terminal import CommandError


def serve(
    run: Run,
    place: Annotated[str, Argument(help="Campaign file, or a database URL.")],
    port: Annotated[int, Option(help="Port of the page.", min=0, max=65535)] = 8765,
    host: Annotated[str, Option(help="Address to serve; any but this machine's own needs a token.")]
    = LOCAL[0],
    show: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False,
) -> None:  # fmt: skip
    """Serve a page to live in during a campaign, until Ctrl-C: results in, proposals out.

    Example: twofold campaign serve oven.db --open
    """
    uvicorn = _import_uvicorn()
    from twofold.campaign import Campaign
    from twofold.cli.background import Background
    from twofold.cli.live import make_app
    from twofold.core.sharding import enable_compile_cache

    campaign, listening = Campaign.open(place), _listen(host, port)
    guard = Guard(host, listening.getsockname()[1], _make_token(host))
    enable_compile_cache()
    background, title = Background(place, campaign), name_campaign(place)
    app = make_app(campaign, title, guard, background)
    background.start()
    run.show({"url": guard.url}, f"{title} is at {guard.url} until Ctrl-C")
    sys.stdout.flush()
    if show:
        typer.launch(guard.url)
    quiet = {"log_level": "warning", "access_log": False, "server_header": False}
    server = uvicorn.Server(uvicorn.Config(app, **quiet, timeout_graceful_shutdown=3))
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt(f"stopped; all that was recorded is in {title}") from stopped


def _import_uvicorn() -> Any:
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise ImportError(
            f"serving a campaign needs {error.name}, which is not installed; "
            'pip install "twofold[serve]"'
        ) from error
    return uvicorn


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise CommandError(
            f"port {port} of {host} cannot be used ({error.strerror}); choose another with --port"
        ) from error


def _make_token(host: str) -> str:
    """What a browser must know to be let in; nothing if only this machine can connect."""
    return "" if host in LOCAL else secrets.token_urlsafe(24)


def name_campaign(place: str) -> str:
    """What to call a campaign on its page; a database URL may hold a password."""
    return Path(urlsplit(place).path if "://" in place else place).name

"""``twofold campaign serve``: a local web page for a campaign. Every input is written to the
database through ``Campaign`` before the server replies. Browsers and commands can therefore work on
one campaign at the same time, and a killed server loses nothing."""

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

Place = Annotated[str, Argument(help="Campaign file, or a database URL.")]
Show = Annotated[bool, Option("--open", help="Open the page in the browser.")]
HOST = "Address to listen on; a non-local one requires a token."


def serve(
    run: Run,
    place: Place,
    port: Annotated[int, Option(help="Port of the page.", min=0, max=65535)] = 8765,
    host: Annotated[str, Option(help=HOST)] = LOCAL[0],
    show: Show = False,
) -> None:
    """Serve a web page to record results and ask for proposals, until Ctrl-C.

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
        raise KeyboardInterrupt(f"stopped; all recorded results are stored in {title}") from stopped


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
    """The access token; empty if only this machine can connect."""
    return "" if host in LOCAL else secrets.token_urlsafe(24)


def name_campaign(place: str) -> str:
    """The title of a campaign's page: the file's name, or a URL without its password."""
    return Path(urlsplit(place).path if "://" in place else place).name

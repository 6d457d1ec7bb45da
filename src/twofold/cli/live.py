"""The web application of ``twofold campaign serve``: the page at ``/``, the current activity at
``/state``, and the forms' actions at ``/act/NAME``. Replies to forms are plain text: what was done,
or, with status 400, what was wrong."""

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from twofold.campaign import Campaign, CampaignError
from twofold.campaign.inputs import require
from twofold.campaign.table import parse_result, parse_whole
from twofold.cli.background import Background
from twofold.cli.guard import Guard
from twofold.report.live_page import make_content_key, render_live_page

LARGEST = 2**16  # bytes of a form
HEADERS = {
    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
}  # fmt: skip
POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'nonce-{}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Advice in messages of the library, and the corresponding controls of the page.
CONTROLS = {
    "--repeat (in Python repeat=True)": 'the box "A repeated measurement"',
    "campaign correct": 'the button "Change" in the table',
    "; campaign status and campaign export list them": "",
}
# Not a redirect, which after a link on another site would not send the new cookie.
WELCOME = '<!doctype html><title>twofold</title><meta http-equiv="refresh" content="0; url=/">'


@dataclass(frozen=True)
class Live:
    """Request handler for one campaign."""

    campaign: Campaign
    title: str
    guard: Guard
    background: Background

    async def check(self, request: Request, following: Any) -> Response:
        """Accept or refuse a request; a token in the address becomes a cookie."""
        guard, opens = self.guard, request.url.path == "/"
        response: Response
        if problem := guard.refuse_site(request):
            response = PlainTextResponse(problem, 403)
        elif opens and guard.is_token(request.query_params.get("token", "")):
            response = HTMLResponse(WELCOME)
            response.set_cookie(guard.cookie, guard.token, httponly=True, samesite="strict")
        elif problem := guard.refuse_stranger(request):
            response = PlainTextResponse(problem, 403)
        else:
            response = await following(request)
        response.headers.update(HEADERS)
        return response

    def page(self, request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        text = render_live_page(self.campaign, self.title, self.background.figures, nonce)
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY.format(nonce)})

    def state(self, request: Request) -> Response:
        work = self.background
        work.wake()
        doing = {"activity": work.activity, "seconds": work.seconds, "error": work.error}
        return JSONResponse(doing | {"shown": make_content_key(self.campaign, work.figures)})

    async def act(self, request: Request) -> Response:
        action = ACTIONS.get(request.path_params["name"])
        if action is None:
            raise HTTPException(404, "there is no such action")
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > LARGEST:
                raise HTTPException(413, f"a form has at most {LARGEST:,} bytes")
        message = await run_in_threadpool(action, self, *read_form(body))
        self.background.wake()
        return PlainTextResponse(message)


def make_app(campaign: Campaign, title: str, guard: Guard, background: Background) -> Starlette:
    """Create the application; only the background thread fits models and draws figures."""
    live = Live(campaign, title, guard, background)
    acting = Route("/act/{name}", live.act, methods=["POST"])
    return Starlette(
        routes=[Route("/", live.page), Route("/state", live.state), acting],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=live.check)],
        exception_handlers={CampaignError: lambda _, e: PlainTextResponse(as_clicked(str(e)), 400)},
    )


def as_clicked(text: str) -> str:
    """A message with the controls of the page in place of commands and options."""
    for typed, clicked in CONTROLS.items():
        text = text.replace(typed, clicked)
    return text


Fields = dict[str, str]


def read_form(body: bytes) -> tuple[Fields, bool]:
    """The non-empty fields of a form, and whether it records a repeated measurement."""
    try:
        form = json.loads(body)
        fields, repeat = form["fields"], form.get("repeat", False)
        # Lone surrogates cannot be stored.
        filled = {name: text.strip() for name, text in fields.items() if text.strip()}
        json.dumps(filled, ensure_ascii=False).encode()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise CampaignError('expected a form: {"fields": {NAME: TEXT, …}}') from None
    return filled, repeat is True


def ask(live: Live, fields: Fields, repeat: bool) -> str:
    num = parse_whole("num", fields.get("num", ""))
    live.campaign.check_num(num)
    live.background.ask(num)
    return f"requested {num} point{'s' if num > 1 else ''}"


def refit(live: Live, fields: Fields, repeat: bool) -> str:
    status = live.campaign.status()
    require(not status.missing, status.advice)
    live.background.refit()
    return "requested a new model"


def tell(live: Live, fields: Fields, repeat: bool) -> str:
    (number,) = live.campaign.tell_all([parse_result(live.campaign, fields)], repeat)
    return f"recorded measurement {number}"


def cancel(live: Live, fields: Fields, repeat: bool) -> str:
    number = parse_whole("proposal", fields.get("proposal", ""))
    live.campaign.cancel(number)
    return f"cancelled proposal {number}"


def correct(live: Live, fields: Fields, repeat: bool) -> str:
    """Missing outputs of a measurement are added, which does not count as a correction."""
    number = parse_whole("measurement", fields.get("measurement", ""))
    result, rows = parse_result(live.campaign, fields), live.campaign.export()
    require(result.point is None, "inputs cannot be corrected: remove it, and record it again")
    row = next((row for row in rows if row["measurement"] == number), {})
    if row and result.outputs and all(row[name] is None for name in result.outputs):
        live.campaign.tell_all([result])
    else:
        live.campaign.correct(number, result.outputs, note=result.note)
    return f"corrected measurement {number}"


def remove(live: Live, fields: Fields, repeat: bool) -> str:
    number = parse_whole("measurement", fields.get("measurement", ""))
    live.campaign.remove(number)
    return f"removed measurement {number}"


ACTIONS: dict[str, Callable[[Live, Fields, bool], str]] = {
    action.__name__: action for action in (ask, refit, tell, cancel, correct, remove)
}

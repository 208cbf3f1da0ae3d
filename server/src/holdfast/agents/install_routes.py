"""Routes for the agent's installer and the wheels it downloads. The agent's package provides both."""

from typing import Annotated, Any

from fastapi import Depends, Response
from fastapi import Path as PathParameter

from backup_agent.install import delivery
from holdfast.access.caller import public
from holdfast.api.answers import documented
from holdfast.api.router import router
from holdfast.errors import NotFound

routes = router("/agent", "agent installer", dependencies=[Depends(public)])

Responses = dict[int | str, dict[str, Any]]
SCRIPT: Responses = {200: {"content": {"text/x-shellscript": {}}, "description": "A POSIX shell script."}}
WHEEL: Responses = {200: {"content": {"application/zip": {}}, "description": "A Python wheel."}}
INDEX: Responses = {
    200: {"content": {"text/plain": {}}, "description": "One line per wheel with its checksum and name."}
}
WheelName = Annotated[str, PathParameter(max_length=200, pattern=r"^[A-Za-z0-9_.]+-[A-Za-z0-9_.]+-py3-none-any\.whl$")]


@routes.get("/install.sh", summary="Get the agent's installer", response_class=Response, responses=SCRIPT)
def install_script() -> Response:
    """Run it on the machine that should become an agent. It contains no secrets."""
    return Response(delivery.install_script(), media_type="text/x-shellscript; charset=utf-8")


@routes.get("/wheels/", summary="List the agent's wheels", response_class=Response, responses=INDEX)
def wheel_index() -> Response:
    return Response(delivery.wheel_index(), media_type="text/plain; charset=utf-8")


@routes.get(
    "/wheels/{name}",
    summary="Download a wheel of the agent",
    response_class=Response,
    responses={**documented(404), **WHEEL},
)
def wheel(name: WheelName) -> Response:
    content = delivery.wheel_files().get(name)
    if content is None:
        raise NotFound("agents.no_such_wheel", "Wheel not found.")
    return Response(content, media_type="application/zip")

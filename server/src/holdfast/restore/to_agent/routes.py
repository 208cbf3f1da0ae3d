"""HTTP for the agent that receives a restore."""

from threading import Event
from typing import Annotated

from fastapi import Depends
from starlette.responses import Response

from holdfast.agents.caller import ThisAgent
from holdfast.api.answers import documented
from holdfast.api.router import router
from holdfast.downloads.opening import Opened
from holdfast.downloads.response import Download
from holdfast.kit.fields import RowId
from holdfast.restore.to_agent.restore_streams import MEDIA_TYPE, RESTORE_STREAMS, RestoreStreams

routes = router("/api/agents", "agents")

STREAM = {
    **documented(404, 409),
    200: {
        "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        "description": "Frames: a letter, eight bytes of length, content.",
    },
}


TheRestoreStreams = Annotated[RestoreStreams, Depends(RESTORE_STREAMS)]


@routes.get(
    "/jobs/{job_id}/restore-stream",
    summary="Receive the files of a restore",
    response_class=Response,
    responses=STREAM,
)
def restore_stream(agent: ThisAgent, job_id: RowId, streams: TheRestoreStreams) -> Response:
    """Only for the agent that has claimed the job. The last frame reports how the engine ended; without it, the stream
    was cut. A repeated request starts from the beginning and ends the earlier stream.
    """

    def begin(gone: Event) -> Opened:
        return streams.open(agent, job_id, gone)

    return Download(begin)

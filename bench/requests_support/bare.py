"""`python -m bench.requests_support.bare PORT`: the bare framework, served like the service, as a baseline."""

import sys
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI
from pydantic import BaseModel

app = FastAPI()


class Health(BaseModel):
    status: str


def a_dependency() -> str:
    return "ok"


@app.get("/async")
async def bare_async() -> Health:
    return Health(status="ok")


@app.get("/sync")
def bare_sync(status: Annotated[str, Depends(a_dependency)]) -> Health:
    return Health(status=status)


def main() -> None:
    options: dict[str, Any] = {"http": "httptools", "ws": "none", "access_log": False, "log_level": "warning"}
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), backlog=8192, server_header=False, **options)


if __name__ == "__main__":
    main()

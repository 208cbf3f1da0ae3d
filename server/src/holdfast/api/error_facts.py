"""The errors of requests, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact("api.bad_request", (400,), "The request is not well-formed.", "Correct the request."),
    Fact("api.not_found", (404,), "There is no such path.", "Compare the path with the API reference."),
    Fact(
        "api.method_not_allowed",
        (405,),
        "The path does not support this method.",
        "Use a method that the `Allow` header names.",
    ),
    Fact("api.body_too_large", (413,), "The request body is too large.", "Send less at once."),
    Fact(
        "api.refused",
        ("other",),
        "The request was refused before it reached a route.",
        "Read the status; correct the request.",
    ),
    Fact(
        "api.internal",
        (500,),
        "An unexpected internal error occurred.",
        "Look in the service's log under the `request_id`; report it.",
        "Earlier changes are kept; the request's own transaction was rolled back.",
    ),
    Fact("api.stopping", (503,), "The service is stopping.", "Try again after `Retry-After` seconds."),
    Fact(
        "api.client_left",
        (503,),
        "The client left before the answer was ready.",
        "Repeat the request if you still need the answer.",
    ),
    Fact(
        "api.too_many_engine_requests",
        (503,),
        "Too many requests that need the engine are waiting.",
        "Try again when some have been answered.",
    ),
    Fact(
        "paging.bad_cursor", (422,), "The cursor is not one that this route gave out.", "Begin again without `cursor`."
    ),
    Fact(
        "store.unavailable",
        (
            503,
            "operation",
        ),
        "The database cannot be reached or is full.",
        "Try again; check the database and its disk.",
        "Running operations continue; their ends are recorded when the database answers again.",
    ),
    Fact(
        "plan.feature_not_available",
        (403,),
        "The installation's plan does not include the feature.",
        "Use a plan that does; `required` names it.",
    ),
)

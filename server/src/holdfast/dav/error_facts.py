"""The errors of WebDAV, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "dav.bad_request",
        (
            413,
            422,
        ),
        "The body is not a PROPFIND request, is too large, or names too many properties.",
        "Use a WebDAV client.",
    ),
    Fact(
        "dav.is_a_folder", (403,), "The address names a folder.", "Open it with a WebDAV client, or name a file in it."
    ),
    Fact(
        "dav.not_found",
        (404,),
        "There is nothing at this address, or it is not visible to this user.",
        "Browse from the top.",
    ),
)

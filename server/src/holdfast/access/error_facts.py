"""The errors of logins, users and secrets, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "access.forbidden",
        (403,),
        "The caller's role is too low for this.",
        "Ask an admin for the role, or for a right on the repository.",
    ),
    Fact(
        "auth.bad_code",
        (
            401,
            403,
        ),
        "The six-digit code is wrong or was used already.",
        "Enter the current code.",
    ),
    Fact(
        "auth.bad_credentials",
        (401,),
        "The user name or the password is wrong.",
        "Correct them; an admin can reset the password.",
    ),
    Fact("auth.busy", (503,), "Too many logins are being checked at the same time.", "Try again in a moment."),
    Fact("auth.challenge_invalid", (401,), "The login has expired or was finished.", "Begin the login again."),
    Fact(
        "auth.credential_missing",
        (401,),
        "The route needs a credential.",
        "Log in, or send a token as `Authorization: Bearer`.",
    ),
    Fact(
        "auth.login_token_required", (403,), "An account token cannot do this.", "Log in with user name and password."
    ),
    Fact(
        "auth.other_origin",
        (403,),
        "A browser's session was used from a page of another origin.",
        "Open the service's own pages.",
    ),
    Fact(
        "auth.password_change_required",
        (403,),
        "The password must be changed before anything else.",
        "Change it with `PUT /api/auth/password`.",
    ),
    Fact(
        "auth.password_refused",
        (422,),
        "The password is too short or too long.",
        "Choose one within the limits in the message.",
    ),
    Fact("auth.password_unchanged", (422,), "The new password is the old one.", "Choose another password."),
    Fact("auth.password_wrong", (403,), "The current password is wrong.", "Enter the current password."),
    Fact(
        "auth.scope_too_narrow",
        (403,),
        "The scope of the account token does not allow this.",
        "Create a token with a wider scope, or log in.",
    ),
    Fact("auth.session_ended", (401,), "The session has ended.", "Log in again."),
    Fact(
        "auth.token_expired",
        (401,),
        "The token has expired.",
        "Refresh it, log in again, or create a new account token.",
    ),
    Fact("auth.token_invalid", (401,), "The credential is not valid.", "Log in again, or create a new token."),
    Fact("auth.token_not_found", (404,), "There is no such token.", "List your tokens."),
    Fact("auth.too_many_failures", (429,), "Too many logins have failed.", "Try again after `Retry-After` seconds."),
    Fact("auth.too_many_tokens", (409,), "The user has as many tokens as are allowed.", "Revoke one first."),
    Fact("auth.totp_already_enabled", (409,), "Login codes are on already.", "Turn them off first."),
    Fact("auth.totp_not_enabled", (409,), "Login codes are off.", "Nothing needs to be done."),
    Fact("auth.totp_not_prepared", (409,), "No secret for login codes was requested.", "Ask for a secret first."),
    Fact(
        "idempotency.in_progress",
        (409,),
        "The first request with this `Idempotency-Key` is still running.",
        "Repeat the request later; it then gets the first one's answer.",
        "The first request continues.",
    ),
    Fact(
        "idempotency.mismatch",
        (409,),
        "The `Idempotency-Key` was used with another request.",
        "Use a new key for a new request.",
    ),
    Fact("metrics.off", (404,), "Metrics are off.", "Set `HOLDFAST_METRICS` to `token` or `open`."),
    Fact(
        "secrets.bad_key",
        (500,),
        "The key that protects stored secrets is not valid.",
        "Restore the key file, or correct `HOLDFAST_SECRET_KEY`.",
    ),
    Fact(
        "secrets.key_not_in_file",
        (409,),
        "The keys come from `HOLDFAST_SECRET_KEY`, not from a file.",
        "Put the new key before the old one there, then move the secrets.",
    ),
    Fact(
        "secrets.unreadable",
        (409,),
        "A stored secret cannot be opened with the current keys.",
        "Restore the key that it was stored with.",
        "The stored secret is kept.",
    ),
    Fact(
        "users.last_admin",
        (409,),
        "The last admin cannot be removed, disabled or demoted.",
        "Make another user an admin first.",
    ),
    Fact("users.not_found", (404,), "There is no such user.", "List the users."),
    Fact("users.refused", (422,), "A value of the user is not allowed; the message names it.", "Correct the value."),
    Fact(
        "users.right_not_found",
        (404,),
        "The user has no right of their own on this repository.",
        "Nothing needs to be removed.",
    ),
    Fact("users.username_taken", (409,), "There is a user with this name already.", "Choose another name."),
)

"""/api/settings/tokens: the caller's own account tokens."""

from holdfast.access import account_tokens
from holdfast.access.caller import LoginOnly, SignedIn, SignedInToRead
from holdfast.access.schemas import CreatedToken, TokenAnswer, TokenCreate, Tokens
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, Writing
from holdfast.api.router import router
from holdfast.kit.fields import RowId

tokens = router("/api/settings/tokens", "Account tokens")


@tokens.get("", summary="List your account tokens")
def list_tokens(caller: SignedIn, session: Reading) -> Tokens:
    return Tokens(tokens=[TokenAnswer.of(row) for row in account_tokens.own_tokens(session, caller)])


@tokens.post("", summary="Create an account token", status_code=201, responses=documented(409))
def create_token(body: TokenCreate, caller: LoginOnly, session: Writing) -> CreatedToken:
    """The token is shown only in this response. Account tokens cannot create further tokens."""
    created = account_tokens.create(session, caller, body.name, body.scope, body.expires_in_days)
    return CreatedToken(**TokenAnswer.of(created.row).model_dump(), token=created.token)


@tokens.delete("/{token_id}", summary="Revoke an account token", status_code=204, responses=documented(404))
def revoke_token(token_id: RowId, caller: SignedInToRead, session: Writing) -> None:
    account_tokens.revoke(session, caller, token_id)

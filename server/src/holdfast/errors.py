"""Errors that carry their HTTP status. Domain code raises them; ``api.errors`` alone turns them into responses."""

from typing import Any, ClassVar


class HoldfastError(Exception):
    """A condition that the caller can understand and act on."""

    status: ClassVar[int] = 500

    def __init__(self, key: str, message: str, *, retry_after: int | None = None, **params: Any) -> None:
        super().__init__(message)
        self.key = key
        self.message = message
        self.retry_after = retry_after
        self.params = params

    def detail(self) -> dict[str, Any]:
        return {"key": self.key, "message": self.message, "params": self.params}


class Unauthenticated(HoldfastError):
    status = 401


class Forbidden(HoldfastError):
    status = 403


class NotFound(HoldfastError):
    status = 404


class Conflict(HoldfastError):
    status = 409


class ChangedMeanwhile(Conflict):
    """The caller's change was based on an outdated state."""

    def __init__(self, key: str, what: str, given: int, current: int) -> None:
        sentence = (
            f"The {what} was changed by someone else; your change was not saved. Reload it and repeat your change."
        )
        super().__init__(key, sentence, given=given, current=current)


class TooLarge(HoldfastError):
    status = 413


class RangeNotSatisfiable(HoldfastError):
    """The requested range is outside the resource. The parameter `size` is the full length."""

    status = 416


class Unprocessable(HoldfastError):
    status = 422


class Locked(HoldfastError):
    status = 423


class TooManyRequests(HoldfastError):
    status = 429


class Unavailable(HoldfastError):
    status = 503


def service_stops() -> Unavailable:
    return Unavailable("api.stopping", "The service is stopping; try again.", retry_after=5)


class PlanRefusal(HoldfastError):
    """The plan does not include a feature."""

    status = 403

    def __init__(self, feature: str, required: str, current: str) -> None:
        super().__init__("plan.feature_not_available", f"The feature {feature} requires the plan {required}.")
        self.feature, self.required, self.current = feature, required, current

    def detail(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "feature": self.feature,
            "required": self.required,
            "current": self.current,
            "message": self.message,
            "params": {},
        }

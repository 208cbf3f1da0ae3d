"""Which stored secrets the steps of a schedule keep if they are sent without them.

Steps have no ids, and secrets are never shown, so a step is recognised by the rest of it. If it could be one of several
with different secrets, it is refused: a script for one database must not get the password of another.
"""

from collections.abc import Callable, Mapping, Sequence

from backup_engine.frozen import frozen
from holdfast.scripts import errors, parameters
from holdfast.scripts.models import StoredScript
from holdfast.scripts.schemas import ScriptStep


@frozen
class KeptSecrets:
    """Matches steps that use the same script."""

    script: StoredScript
    read: Callable[[str | None], Mapping[str, str] | None]

    def of(self, wanted: Sequence[ScriptStep], stored: Sequence[ScriptStep]) -> list[str | None]:
        """Return the name of the secrets that each wanted step keeps, or None. Raise Unprocessable.

        Steps with the same place and plain parameters are matched first, then those whose parameters were changed.
        """
        kept: dict[int, str | None] = {}
        changed: list[int] = []
        replaced: list[ScriptStep] = []
        asking = {number: self._use(step) for number, step in enumerate(wanted) if step.has_secrets is not False}
        for use in dict.fromkeys([*asking.values(), *map(self._use, stored)]):
            numbers = [number for number, each in asking.items() if each == use]
            candidates = [step for step in stored if self._use(step) == use]
            if candidates:
                kept |= self._matched(wanted, numbers, candidates)
            else:
                changed += numbers
            if len(numbers) < len(candidates):
                replaced += candidates
        kept |= self._matched(wanted, changed, replaced)
        return [kept.get(number) for number in range(len(wanted))]

    def _matched(
        self, wanted: Sequence[ScriptStep], numbers: Sequence[int], candidates: Sequence[ScriptStep]
    ) -> dict[int, str | None]:
        if [self._shown(wanted[number]) for number in numbers] == [self._shown(step) for step in candidates]:
            return {number: step.secret_id for number, step in zip(numbers, candidates, strict=True)}
        is_enough = len(numbers) <= len(candidates)
        return {number: self._common(wanted[number], candidates, is_enough=is_enough) for number in numbers}

    def _common(self, step: ScriptStep, candidates: Sequence[ScriptStep], *, is_enough: bool) -> str | None:
        """Return the name of the secrets, if it does not matter which of the candidates the step is."""
        omitted = [str(each["name"]) for each in self.script.parameters if each["secret"]]
        omitted = [name for name in omitted if name not in step.parameters]
        if not omitted or not candidates:
            return None
        known = [self.read(candidate.secret_id) or {} for candidate in candidates]
        for name in omitted:
            values = {values.get(name) for values in known}
            if len(values) > 1 or (not is_enough and values != {None}):
                raise errors.secret_needed(self.script.name, name, self._plain(step))
        return candidates[0].secret_id

    def _use(self, step: ScriptStep) -> tuple[object, ...]:
        return step.when, *self._plain(step).items()

    def _shown(self, step: ScriptStep) -> tuple[object, ...]:
        """Return everything that a client sees of the step."""
        has_secrets = bool(step.has_secrets or step.secret_id)
        return step.when, step.on_failure, step.run_on, step.scope, has_secrets, self._plain(step)

    def _plain(self, step: ScriptStep) -> dict[str, str]:
        return parameters.plain(self.script.parameters, step.parameters)

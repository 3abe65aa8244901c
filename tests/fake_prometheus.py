"""A QueryDoor in memory: tests say what each metric's query answers, per node or as an error; else no series."""

from collections.abc import Mapping

from promql import door, errors


class FakePrometheus:
    """Answers prepared expressions; `asked` lists every expression in order."""

    def __init__(self, *, label: str = "instance") -> None:
        self.asked: list[str] = []
        self._label = label
        self._answers: dict[str, door.Answer | errors.PromqlError] = {}

    def answer(self, expression: str, values: Mapping[str, float], *, warnings: tuple[str, ...] = ()) -> None:
        """Prepare one value per label text for an expression."""
        answer = door.Answer.of(tuple(door.Sample({self._label: label}, value, 0.0) for label, value in values.items()))
        self._answers[expression] = answer
        if warnings:
            self.fail(expression, errors.Partial("; ".join(warnings), answer=answer, reasons=warnings))

    def answer_samples(self, expression: str, *samples: door.Sample) -> None:
        """Prepare exact samples, doubles included."""
        self._answers[expression] = door.Answer.of(samples)

    def fail(self, expression: str, error: errors.PromqlError) -> None:
        """Make an expression raise."""
        self._answers[expression] = error

    def query(self, expression: str, *, at_seconds: float | None = None) -> door.Answer:
        """See promql.door."""
        self.asked.append(expression)
        prepared = self._answers.get(expression, door.Answer())
        if isinstance(prepared, errors.PromqlError):
            raise prepared
        return prepared

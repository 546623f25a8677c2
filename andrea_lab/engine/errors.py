"""What the engine raises."""


class EngineError(ValueError):
    """A request the engine cannot serve; the message is one line."""


class TrainingStopped(RuntimeError):
    """A loss or gradient that is no finite number. The weights are those of before the step.

    step: the step that failed and was not applied. tensor: name of the first bad tensor. advice: what to change.
    result: what the step would have returned.
    """

    def __init__(self, step: int, tensor: str, advice: str, result: dict):
        super().__init__(f"step {step}: {tensor} is not finite, the step was not applied; {advice}")
        self.step, self.tensor, self.advice, self.result = step, tensor, advice, result

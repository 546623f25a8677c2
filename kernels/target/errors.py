"""What a user can get wrong, one line each."""


class KernelError(Exception):
    """A kernel, a launch or a target that cannot work; the message is one line that says what to change."""


class KernelRefused(KernelError):
    """The kernel's source breaks a rule of the CPU target; the message starts with file and line."""


class LaunchError(KernelError):
    """A launch with a wrong shape, count or type of arguments."""


class TargetError(KernelError):
    """A target that does not exist or does not answer on this machine."""


class KernelFault(KernelError):
    """The check target found a fault in a launch; `report` holds all that it found."""

    def __init__(self, report):
        self.report = report
        super().__init__(f"kernel {report.name}: {report.first()}")

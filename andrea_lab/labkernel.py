"""IPython's kernel for `make lab`: a page that is reloaded while a cell runs finds its widgets again at once.

Before JupyterLab draws a widget that is already there, it asks the kernel who it is, which comms it has and, over a
comm of its own, for their states. IPython's kernel answers on its main thread, so after the cell that runs. This one
hands such messages to a subshell, a thread of the kernel, while cells run or wait. Cells keep their order.
"""

from ipykernel.ipkernel import IPythonKernel
from zmq import Frame

ASIDE = frozenset({"kernel_info_request", "comm_info_request", "comm_open", "comm_msg", "comm_close"})


class LabKernel(IPythonKernel):
    """A kernel that speaks with widgets while a cell runs."""

    _aside = None

    def __init__(self, **options):
        super().__init__(**options)
        self._cells = set()  # ids of the requests to run a cell that came and were not answered yet

    async def shell_channel_thread_main(self, msg):
        """Sends a message of the shell channel, a list of frames, to where it is handled; on the channel's thread."""
        if self.session is not None:
            try:
                msg = self._where_to(msg)
            except Exception:
                self.log.exception("A message waits for the cell that runs")
        await super().shell_channel_thread_main(msg)

    async def execute_request(self, stream, ident, parent):
        """Runs a cell."""
        try:
            await super().execute_request(stream, ident, parent)
        finally:
            self._cells.discard(parent["header"]["msg_id"])

    def _send_abort_reply(self, stream, msg, idents):
        self._cells.discard(msg["header"]["msg_id"])  # a cell behind one that failed
        super()._send_abort_reply(stream, msg, idents)

    def _where_to(self, frames):
        """The message; as if sent to our subshell, where it is for the main thread and need not wait for its cells."""
        identities, rest = self.session.feed_identities(frames, copy=False)
        header = self.session.unpack(rest[1].bytes)
        if header.get("subshell_id") is not None:
            return frames
        if header["msg_type"] == "execute_request":
            self._cells.add(header["msg_id"])
        if not self._cells or header["msg_type"] not in ASIDE:
            return frames
        message = self.session.deserialize(rest, copy=False)
        message["header"]["subshell_id"] = self._subshell()
        return [Frame(bytes(part)) for part in [*self.session.serialize(message, identities), *message["buffers"]]]

    def _subshell(self):
        """The id of the subshell, which is started when first needed."""
        manager = self.shell_channel_thread.manager
        if self._aside not in manager.list_subshell():
            self._aside = manager._create_subshell()
        return self._aside

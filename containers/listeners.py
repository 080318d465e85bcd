"""The gateway's listeners while it runs: one VM for each, replaced by a fresh one when asked to.

Envoy watches a file of listeners and takes in what is renamed to it. A listener whose plugin does
not start is refused alone: its name and the plugin's own words are kept, the others serve.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING

from containers import admin, envoy_config
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from containers.envoy_config import Wiring
    from containers.testbed import GatewayLog, Plan

_IN_FORCE_WITHIN_S = 60.0
_PAUSE_S = 0.005
_WORDS_AT_MOST = 400
_LAST_WORDS = ("panic: ", "fatal error: ")
# Where Higress' SDK ends in a nil pointer when nothing has been registered.
_SDKS_START = "proxywasm/internal.(*state).createPluginContext"
_NO_HANDLERS = (
    " (the plugin has registered no handlers: register them in init(), since a Wasm reactor never "
    "runs main())"
)
_LINES_SHOWN = 12
_PORT_TAKEN = re.compile(r"cannot bind '([^']+)'.*Address already in use")
# What a plugin writes at warning or above, as Envoy 1.36 to 1.40 print it: root id, VM, text.
_PLUGINS_WORDS = re.compile(
    r"\[[^\]]*\]\[\d+\]\[(?:warning|error|critical)\]\[wasm\] (?:\[[^\]]*\] )?"
    r"wasm log(?: plugin)? (?P<root>\S+) (?P<vm>\S+): (?P<text>.*)"
)
# Of a plugin without a context yet, which are pieces of Go's last words, a line each.
_PIECE = re.compile(r"\[[^\]]*\]\[\d+\]\[error\]\[wasm\] (?:\[[^\]]*\] )?wasm log: ?(?P<text>.*)")
_ENVOYS_WORDS = re.compile(
    r"\[[^\]]*\]\[\d+\]\[(?:error|critical)\]\[wasm\] (?:\[[^\]]*\] )?(?P<text>.*)"
)


class Listeners:
    """The listeners of one testbed.

    Attributes:
        hand_over: Takes the file to a gateway that does not see the testbed's folder.
        vms: Listener -> the name of its plugin's VM.
        refused: Listener -> why the gateway does not have it, in a clause.
    """

    def __init__(self, plan: Plan, wiring: Wiring) -> None:
        self.hand_over: Callable[[bytes], None] | None = None
        self.vms: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self._plan = plan
        self._wiring = wiring
        self._admin_url = ""
        self._log: GatewayLog | None = None
        self._made: Counter[str] = Counter()

    def plan_first(self) -> bytes:
        """Write the file that the gateway starts with, a VM for each listener; return its bytes."""
        self._name_vms(listener.name for listener in self._plan.listeners)
        return self._written()

    def started(self, admin_url: str, log: GatewayLog) -> None:
        """Look, once the gateway is ready, which listeners it has refused.

        Raises:
            GatewayError: It has refused every one of them, or a port is in use.
        """
        self._admin_url, self._log = admin_url, log
        self._note_refusals(0)
        if len(self.refused) == len(self._plan.listeners):
            name, why = next(iter(self.refused.items()))
            raise GatewayError(
                f"the plugin does not start with the configuration of any case; first {name}: "
                f"{why}; expected a plugin that starts; see logs/gateway.log of this run",
                detail="\n".join(log.since(0).splitlines()[-_LINES_SHOWN:]),
            )

    def renew(self, *names: str) -> None:
        """Give some listeners a fresh VM each, or all that serve; return once it is in force.

        Connections to the listener before are to be closed by who holds them.

        Raises:
            GatewayError: The gateway did not take it in.
        """
        wanted = [name for name in names or self.vms if name not in self.refused]
        if not wanted:
            return
        mark = self._log.mark() if self._log else 0
        before = self._updates()
        self._name_vms(wanted)
        content = self._written()
        if self.hand_over is not None:
            self.hand_over(content)
        deadline = time.monotonic() + _IN_FORCE_WITHIN_S
        while self._updates() == before:
            if time.monotonic() > deadline:
                raise GatewayError(
                    f"the gateway did not take a fresh VM for {', '.join(wanted)} within "
                    f"{_IN_FORCE_WITHIN_S:g} s; expected it to follow its file of listeners; see "
                    "logs/gateway.log of this run"
                )
            time.sleep(_PAUSE_S)
        self._note_refusals(mark)

    def _name_vms(self, names: Iterable[str]) -> None:
        for name in names:
            self._made[name] += 1
            self.vms[name] = f"{name}#{self._made[name]}"

    def _written(self) -> bytes:
        """Write the file; without what was refused, which Envoy would try again each time."""
        serving = {name: vm for name, vm in self.vms.items() if name not in self.refused}
        content = envoy_config.listeners(self._plan.listeners, self._wiring, serving)
        envoy_config.replace_listeners(self._plan, content)
        return content

    def _updates(self) -> str:
        # Envoy answers when it has made the VMs: 0.1 s each, more on a busy machine.
        counters = "/stats?filter=^listener_manager.lds.update_(success|rejected)"
        return admin.text(self._admin_url, counters, _IN_FORCE_WITHIN_S)

    def _note_refusals(self, mark: float) -> None:
        for name, details in admin.refused_listeners(self._admin_url).items():
            if name in self.refused or name not in self.vms:
                continue
            taken = _PORT_TAKEN.search(details)
            if taken:
                raise GatewayError(
                    f"the gateway cannot listen on {taken[1]}: another program has that port; "
                    "expected a free one; end that program, or leave the choice of the port to the "
                    "kernel",
                    detail=details,
                )
            log = self._log.since(mark) if self._log else ""
            self.refused[name] = _words(log, self.vms[name]) or details


def _words(log: str, vm: str) -> str:
    """Return what a VM's plugin wrote at warning or above, else its runtime, else Envoy."""
    lines = log.splitlines()
    own = [found for line in lines if (found := _PLUGINS_WORDS.match(line)) and found["vm"] == vm]
    pieces = [found["text"] for found in own]
    if not pieces:
        pieces = [found["text"] for line in lines if (found := _PIECE.match(line))]
    begun = next((n for n, piece in enumerate(pieces) if piece.startswith(_LAST_WORDS)), None)
    if begun is not None:  # Go writes its last words in pieces, an empty one for a line's end
        said = "".join(piece or "\n" for piece in pieces[begun:]).splitlines()[:1]
    else:
        said = pieces or [found["text"] for line in lines if (found := _ENVOYS_WORDS.match(line))]
    text = "; ".join(dict.fromkeys(line.strip() for line in said if line.strip()))
    text = text if len(text) <= _WORDS_AT_MOST else f"{text[:_WORDS_AT_MOST]}..."
    return f"{text}{_NO_HANDLERS}" if begun is not None and _SDKS_START in log else text

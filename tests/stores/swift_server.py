"""Runs Swift's four servers in one process, from the configurations in the current folder, under Debian's Python.

Each by its own program would load the same modules four times, which is most of what starting them takes.
"""

import json
import sys

import eventlet
import eventlet.wsgi
from swift.common import utils
from swift.common.ring import RingBuilder
from swift.common.wsgi import SwiftHttpProtocol, loadapp

utils.eventlet_monkey_patch()


def main(folder: str, ports: dict[str, int]) -> None:
    """Build the rings and answer on each port until the process is ended."""
    for kind in ("account", "container", "object"):
        builder = RingBuilder(2, 1, 1)
        builder.add_dev({"region": 1, "zone": 1, "ip": "127.0.0.1", "port": ports[kind], "device": "one", "weight": 1})
        builder.rebalance()
        builder.get_ring().save(f"{folder}/{kind}.ring.gz")
    utils.set_swift_dir(folder)
    servers = []
    for kind, port in ports.items():
        application = loadapp(f"{folder}/{kind}.conf")
        listener = eventlet.listen(("127.0.0.1", port), backlog=1024)
        quiet = {"log_output": False, "capitalize_response_headers": False}
        servers.append(eventlet.spawn(eventlet.wsgi.server, listener, application, protocol=SwiftHttpProtocol, **quiet))
    for server in servers:
        server.wait()


main(sys.argv[1], json.loads(sys.argv[2]))

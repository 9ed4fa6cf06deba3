"""Whatever a service's process says is one JSON line an event, with the service's and the query's name."""

import json
import subprocess
import sys

SCRIPT = """
import asyncio, logging, threading, warnings
import structlog
from spojoin.telemetry import log_lines

log_lines.begin_process("early")
logging.getLogger("some.package").error("of a package: %s", 1)
log_lines.configure("info", "sink", "joined")
log = structlog.get_logger()
log.info("of the service", reason="two\\nlines")

def thread():
    log.warning("of a callback", topic="t")
    raise ValueError("in a thread")

threads = [threading.Thread(target=thread, name=f"t{at}") for at in range(8)]
for each in threads: each.start()
for each in threads: each.join()
warnings.warn("of the language")
logging.getLogger("librdkafka").critical("of the client")

class Unraisable:
    def __del__(self): raise KeyError("on the way")

Unraisable()

async def fails(): raise OSError("in a task")

async def main():
    asyncio.ensure_future(fails())
    await asyncio.sleep(0.05)

asyncio.run(main())
import gc; gc.collect()
raise RuntimeError("at last")
"""


def test_all_that_a_process_says_is_json_with_its_names():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert (lines[0]["service"], lines[0]["event"]) == ("early", "of a package: 1")
    assert {(line["service"], line["query"]) for line in lines[1:]} == {("sink", "joined")}
    assert all({"event", "level", "timestamp"} <= line.keys() for line in lines)
    said = [line["event"] for line in lines[1:]]
    assert [said.count(each) for each in ("of a callback", "a thread crashed", "of the language")] == [8, 8, 1]
    assert {"of the service", "of the client"} < {*said}
    assert any(each.startswith("Task exception was never retrieved") for each in said)
    assert (said[-1], lines[-1]["reason"]) == ("crashed", "RuntimeError: at last")
    assert "Traceback" in lines[-1]["exception"]
    assert any("on the way" in line.get("reason", "") for line in lines)


def test_a_wrong_start_is_a_line_too():
    for module, status in (("spojoin.runtime", 2), ("spojoin.page", 2), ("spojoin.roles.predictor", 2)):
        call = [sys.executable, "-m", module, *(["together"] if module == "spojoin.runtime" else [])]
        done = subprocess.run(call, capture_output=True, text=True, check=False, env={"PYTHONPATH": ":".join(sys.path)})
        (line,) = done.stderr.splitlines()
        said = json.loads(line)
        assert (done.returncode, said["event"], said["level"]) == (status, "refused", "error")
        assert "query_file" in said["reason"].lower()
        assert said["service"]

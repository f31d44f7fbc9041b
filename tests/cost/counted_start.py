"""Start a program as Python would, and say at its end on standard error what it compiled: PROGRAM ARGUMENT…"""

import runpy
import sys

compiled = [0]


def hear(event, _):
    compiled[0] += event == "compile"


sys.argv = sys.argv[1:]
sys.addaudithook(hear)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print(f"compiled: {compiled[0]}", file=sys.stderr)

"""Start the runner as its own program does, and write down how many bytecode instructions it took: FILE MAIN ARGUMENT…"""

import sys

counted = [0]


def count(frame, event, _):
    frame.f_trace_opcodes, frame.f_trace_lines = True, False
    counted[0] += event == "opcode"
    return count


file, main = sys.argv[1:3]
sys.argv[1:] = sys.argv[3:]
with open(main, encoding="utf-8") as source:
    code = compile(source.read(), main, "exec")
sys.settrace(count)
try:
    exec(code, {"__name__": "__main__", "__file__": main, "__package__": None})
finally:
    sys.settrace(None)
    with open(file, "w", encoding="utf-8") as written:
        written.write(str(counted[0]))

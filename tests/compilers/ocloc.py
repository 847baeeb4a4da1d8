#!/usr/bin/env python3
"""Runs Intel's offline compiler, which Debian offers only as a library. usage: ocloc.py LIBRARY

Each line of stdin is a JSON list of arguments for one call. For each call, stdout gets a line: a JSON list of the exit
status and the compiler's output. One process makes many calls, because loading the library takes as long as a call."""
import ctypes
import json
import os
import sys
import tempfile

library = ctypes.CDLL(sys.argv[1])
none = ctypes.c_uint32(0)
answers = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    arguments = [argument.encode() for argument in ["ocloc", *json.loads(line)]]
    with tempfile.TemporaryFile() as printed:
        for stream in (1, 2):
            os.dup2(printed.fileno(), stream)
        status = library.oclocInvoke(ctypes.c_uint32(len(arguments)), (ctypes.c_char_p * len(arguments))(*arguments),
                                     none, None, None, None, none, None, None, None, None, None, None, None)
        ctypes.CDLL(None).fflush(None)
        printed.seek(0)
        said = printed.read().decode(errors="replace")
    print(json.dumps([status & 255, said]), file=answers, flush=True)

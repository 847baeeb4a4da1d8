#!/usr/bin/env python3
"""Intel's offline compiler, which Debian has as a library alone. usage: ocloc.py LIBRARY ARGUMENTS…"""
import ctypes
import sys

arguments = [b"ocloc"] + [argument.encode() for argument in sys.argv[2:]]
none = ctypes.c_uint32(0)
status = ctypes.CDLL(sys.argv[1]).oclocInvoke(ctypes.c_uint32(len(arguments)), (ctypes.c_char_p * len(arguments))(*arguments),
                                              none, None, None, None, none, None, None, None, None, None, None, None)
sys.exit(status & 255)

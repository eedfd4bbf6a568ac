"""What every room may use: errors of one line, arrays, Markdown, child processes, and limits of memory and time.

Also the doors of rooms, Ctrl-C, hints on what to install, and what Python's names are called on the command line.

Nothing here knows an encoding or a file format.
"""

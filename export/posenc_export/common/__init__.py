"""What every room may use: errors of one line, arrays, Markdown, child processes, and limits of memory and time.

Nothing here knows an encoding or a file format.
"""

"""Files that other people's exporters wrote: how they are made, and the truth about each."""

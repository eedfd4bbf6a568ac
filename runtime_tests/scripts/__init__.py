"""What is run by hand, after a change that a script names, or to write a table of the documents."""

"""Networks of packages and of tutorials: a file for each sample that has some."""

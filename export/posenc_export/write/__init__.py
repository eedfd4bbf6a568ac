"""What is asked for becomes files: targets, the formats of graphs, and C++ that runs them."""

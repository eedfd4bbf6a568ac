"""Types of transformers, tiny, with weights at random: a file for each sample."""

"""What a client offers, a module for each topic: descriptions of calls and nothing else."""

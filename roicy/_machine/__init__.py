"""What the machine has, and what a process may use of it: instruction sets, threads, memory."""

"""Claims about the system call rules: as data, as a filter, as a profile, and in the kernel."""

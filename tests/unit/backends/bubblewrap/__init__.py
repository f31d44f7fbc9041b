"""The embedded backend, with the machine's real bwrap, as root and as an ordinary user."""

"""What makes a sandbox from a spec. One small protocol; nothing else differs between them."""

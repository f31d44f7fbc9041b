"""Which connections a sandbox may make, and making them: the gateway's side of `network.allow` and `internet`."""

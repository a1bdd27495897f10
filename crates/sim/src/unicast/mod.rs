//! Unicast servers and their clients.

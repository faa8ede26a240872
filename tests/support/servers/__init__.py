"""Object stores and web servers on loopback, which count requests and inject faults."""

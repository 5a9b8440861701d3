"""From a reply to the bus: captured, written to the local log, published in order and once."""

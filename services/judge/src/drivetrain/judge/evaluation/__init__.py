"""How good is the judge? Its own chain over a labelled set, and what the labels say of it."""

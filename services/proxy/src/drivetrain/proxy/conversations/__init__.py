"""Which recorded turn a request continues, judged by what its messages mean."""
